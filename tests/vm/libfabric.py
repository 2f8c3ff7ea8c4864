"""The libfabric provider over the RDMA devices: its own tests, those of what only devices do, and
fi_info and fi_pingpong of a stock libfabric, as over the soft link.
"""
import os
import sys

import over_rdma
from gtests import Program

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import ofi_pingpong_test  # noqa: E402

if __name__ == "__main__":
    witness = over_rdma.Witness()
    failed = Program("ofi_comch_rdma_tests").run("*")
    failed += Program("ofi_comch_test").run("Message.*:Calls.*:*/Rma.*")
    if failed:
        sys.exit(failed)
    ofi_pingpong_test.main()
    witness.assert_used(1000)
