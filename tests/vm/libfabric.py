"""The libfabric provider over the RDMA devices: its own tests, those of what only devices do, and
fi_info and fi_pingpong of a stock libfabric, as over the soft link.
"""
import os
import sys

import over_rdma

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import ofi_pingpong_test  # noqa: E402

if __name__ == "__main__":
    witness = over_rdma.Witness()
    # Over RDMA names are the DPU's processes', so one with both ends is the DPU's.
    os.environ["COMCH_SIDE"] = "dpu"
    from gtests import Program

    failed = Program("ofi_comch_rdma_tests").run("*", without="Deletion.*")  # among those of faults
    for what in "all", "windows":
        os.environ["FI_COMCH_KEEP_REGISTRATIONS"] = what
        failed += Program("ofi_comch_rdma_tests").run("KeptOnDevice.*:ManyOnDevice.*")
        failed += Program("ofi_comch_test").run("Message.*:*/Rma.*", forking="Death.*")
    del os.environ["FI_COMCH_KEEP_REGISTRATIONS"]
    # Not those of hostile peers, who speak the soft link's language, nor that of names on the host.
    failed += Program("ofi_comch_test").run(
        "Message.*:Calls.*:*/Rma.*:Connected.*:SocketAddresses.*:Vector.*:Queue.*:Counter.*:EventQueue.*:"
        "Threading.*:InParts.*:Progress.*:Service.*:Completion.*:MultiReceive.*:PollSet.*:"
        "SharedReceives.*:Waiting.*:Inject.*",
        forking="TwoSides.*:Death.*:Representor.HoldsForNames:Threading/AutomaticProgress.*",
        # A port over RDMA wakes now and then to look at its device; there it must not wake at all.
        without="Waiting.ADescriptorTellsOfWhatAnotherThreadHasRead")
    if failed:
        sys.exit(failed)
    del os.environ["COMCH_SIDE"]
    ofi_pingpong_test.main()
    witness.assert_used(1000)
