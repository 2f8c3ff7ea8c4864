"""UCP jobs over the RDMA devices, data checked byte by byte: the tests of the soft link, unchanged, and a
message of 1 GiB.
"""
import os
import sys

import over_rdma
from gtests import Program

if __name__ == "__main__":
    witness = over_rdma.Witness()
    tests = Program("uct_comch_test")
    failed = tests.run("UcpStream.*:UcpActiveMessages.*:Tag*:Job/*")
    os.environ["COMCH_TEST_HUGE"] = "1"
    failed += tests.run("TagJob.OneGibibyte")
    witness.assert_used(10_000)
    sys.exit(failed)
