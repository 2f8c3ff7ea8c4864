"""Long messages through UCX are read by the receiver's device, and not sent in fragments that both CPUs
copy: UCX must choose that by itself, from what it is told of the transport.
"""
import os

import over_rdma
from machine import BUILD, sent_packets

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import sys  # noqa: E402

sys.path.insert(0, str(over_rdma.SOURCE / "scripts"))
import perftest_pair  # noqa: E402

LENGTH = 64 << 10
MESSAGES = 200


def packets(**settings):
    """That both devices send for a message, acknowledgements and all."""
    transport = perftest_pair.Transport("comch", BUILD / "lib/ucx/libuct_comch.so",
                                        settings={"host": settings, "dpu": settings})
    before = sum(map(sent_packets, ("host", "dpu")))
    perftest_pair.run_pair(transport, ["-t", "tag_bw", "-s", str(LENGTH), "-n", str(MESSAGES), "-w", "1"])
    return (sum(map(sent_packets, ("host", "dpu"))) - before) / MESSAGES


chosen, fragments, read = packets(), packets(UCX_RNDV_THRESH="inf"), packets(UCX_RNDV_THRESH="0")
print(f"packets for a message of {LENGTH} bytes: {chosen:.1f}; in fragments {fragments:.1f}, read {read:.1f}")
if fragments < read + 3:
    raise AssertionError("the two ways are not told apart: UCX does not listen to UCX_RNDV_THRESH")
if abs(chosen - read) > abs(chosen - fragments) / 3:
    raise AssertionError("UCX sends it in fragments")
