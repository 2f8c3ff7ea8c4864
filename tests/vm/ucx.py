"""ucx_perftest over UCX_TLS=comch and the RDMA devices: the tests of ucx_perftest_test.py, with fewer
rounds, as emulated devices take a thousand times as long for a message, and in UCT's tests with no
more bytes than the link takes at a time. With --short one test in ten of each group.
"""
import os
import re
import sys

import over_rdma

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import ucx_perftest_test  # noqa: E402

SHORT = "--short" in sys.argv
MOST_ROUNDS = {"n": 10, "w": 2}
LONGEST = 8192       # of one UCT message, or a put or get that is copied
LONGEST_ZCOPY = 1 << 20

ucx_perftest_test.TIMEOUT = 300  # of a group


def fit(line):
    """The test with rounds and sizes that suit the devices."""
    for option, most in MOST_ROUNDS.items():
        line = re.sub(rf"-{option} (\d+)", lambda found, o=option, m=most:
                      f"-{o} {min(int(found[1]), m)}", line)
    if " -D " in line and " -D i" not in line and " -D c" not in line:  # UCT's layouts
        rma = re.match(r"-t (put|get)", line) and "zcopy" in line
        longest = LONGEST_ZCOPY if rma else LONGEST
        sizes = [int(size) for size in re.search(r"-s ([\d,]+)", line)[1].split(",")]
        header = sum(int(size) for size in re.findall(r"-H (\d+)", line))
        while sum(sizes) + header > longest:
            sizes = [size // 2 for size in sizes]
        line = re.sub(r"-s [\d,]+", "-s " + ",".join(map(str, sizes)), line)
    return line


def groups():
    for name, alloc, tests, options in all_groups():
        # Not what takes more than the machine's memory; huge pages are the heap to a device.
        if "GiB" not in name and "huge" not in name:
            yield name, alloc, list(dict.fromkeys(map(fit, tests)))[::10 if SHORT else 1], options


all_groups, ucx_perftest_test.groups = ucx_perftest_test.groups, groups

if __name__ == "__main__":
    witness = over_rdma.Witness()
    failed = ucx_perftest_test.main()
    witness.assert_used(1000 if SHORT else 10000)
    sys.exit(failed)
