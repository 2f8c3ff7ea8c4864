"""ucx_perftest over UCX_TLS=comch and the RDMA devices: the tests of ucx_perftest_test.py, with fewer
rounds. Emulated devices take a thousand times as long for a message.
"""
import os
import re
import sys

import over_rdma

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import ucx_perftest_test  # noqa: E402

MOST_ROUNDS = 60


def fewer(line):
    return re.sub(r"-n (\d+)", lambda found: f"-n {min(int(found[1]), MOST_ROUNDS)}", line)


def groups():
    for name, alloc, tests, options in all_groups():
        if "GiB" not in name:  # more than the machine's memory
            yield name, alloc, [fewer(line) for line in tests], options


all_groups, ucx_perftest_test.groups = ucx_perftest_test.groups, groups

if __name__ == "__main__":
    witness = over_rdma.Witness()
    failed = ucx_perftest_test.main()
    witness.assert_used(10000)
    sys.exit(failed)
