"""The DOCA face over the RDMA devices: its own tests, as far as they are about connections, devices
and exported memory, and the programs of the soft device's test, unchanged. With words, only these parts.
"""
import os
import sys
import tempfile

import over_rdma
from gtests import Program
from machine import BUILD
import doca_programs_test

# Emulated, on a machine that may be crowded.
doca_programs_test.PATIENCE = doca_programs_test.Program.PATIENCE = 300


def tests(name, chosen, forking="", without=""):
    def run():
        return Program(f"doca_comch_{name}_test").run(chosen, forking, without)
    return run


def programs():
    """The examples as they were built outside. (Compiling takes very long in here, so the projects that
    the soft device's test builds are left to that.)"""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["COMCH_DOMAIN"] = os.path.join(directory, "domain")
        for name, arguments in {"examples": (BUILD / "bin", 100), "flags": (BUILD / "bin", directory),
                                "kill": (BUILD / "bin",),
                                "kill_on_the_fast_path": (BUILD / "bin",)}.items():
            print(f"-- {name}", flush=True)
            getattr(doca_programs_test, f"check_{name}")(*arguments)
    return 0


# With the packets that it takes each device at least.
PARTS = {
    # An emulated device has not the queue pairs for a crowd; and here is one domain, where some take two.
    "comm_channel": (tests("comm_channel", "*", "*Death.*", "CommChannelCrowd.*:CommChannelDomains.*"), 1000),
    # As many clients as a server may have are a crowd, too; and how long
    # a slow peer takes follows from the size of the soft link's ring.
    "comch": (tests("comch", "*", "*.AKilledClient*",
                    "*.AServerTakesAsManyClients*:*.AStopWaitsForAPeer*"), 1000),
    "cc": (tests("cc", "*"), 40),
    # One takes two devices beside the test's own.
    "common": (tests("common", "DocaEngine.*:DocaDevice.*:DocaMemory.*",
                     "*.MoreBuffers*", "*.AnotherDeviceIsNotTakenForOneThatWasClosed"), 10),
    "dma": (tests("dma", "", "*"), 100),
    "workq": (tests("workq", "DocaWorkq.*:DocaWorkqStates.*", "DocaWorkqPeers.*"), 100),
    # A queue lies between the CPU and the DPA of one device: nothing goes over the network.
    "msgq": (tests("msgq", "*"), 0),
    "sync_event": (tests("sync_event", "*", "*.AnotherProcess*:DocaSyncEventOwner.*"), 50),
    "programs": (programs, 1000),
}

failed = []
for part in sys.argv[1:] or PARTS:
    run_part, packets = PARTS[part]
    witness = over_rdma.Witness()
    print(f"== {part}", flush=True)
    if run_part():
        failed.append(part)
    witness.assert_used(packets)
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
