"""Long messages through UCX are read by the receiver's device, and not sent in fragments that both CPUs
copy: UCX must choose that by itself, from what it is told of the transport. comch_stat tells the same of the
running programs.
"""
import concurrent.futures
import json
import os
import subprocess
import time

import over_rdma
from machine import BUILD, sent_packets

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import sys  # noqa: E402

sys.path.insert(0, str(over_rdma.SOURCE / "scripts"))
import perftest_pair  # noqa: E402

LENGTH = 64 << 10
MESSAGES = 200


def transport(settings):
    return perftest_pair.Transport("comch", BUILD / "lib/ucx/libuct_comch.so",
                                   settings={"host": settings, "dpu": settings})


def packets(**settings):
    """That both devices send for a message, acknowledgements and all."""
    before = sum(map(sent_packets, ("host", "dpu")))
    perftest_pair.run_pair(transport(settings),
                           ["-t", "tag_bw", "-s", str(LENGTH), "-n", str(MESSAGES), "-w", "1"])
    return (sum(map(sent_packets, ("host", "dpu"))) - before) / MESSAGES


def bytes_by_way(**settings):
    """Of both programs, while they run: copied into messages, and moved by the devices alone."""
    def look():
        said = subprocess.run([BUILD / "bin/comch_stat", "--json", "--face", "uct"], capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        if said.returncode != 0:
            return 0, 0  # they have not begun, and there is no domain
        rows = [row for process in json.loads(said.stdout)["processes"] for row in process["connections"]]
        return tuple(sum(row[figure] for row in rows) for figure in ("tx_bytes", "tx_mapped_bytes"))

    most = 0, 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(perftest_pair.run_pair, transport(settings),
                          ["-t", "tag_bw", "-s", str(LENGTH), "-n", str(10 * MESSAGES), "-w", "1"])
        while not job.done():
            most = max(most, look(), key=sum)
            time.sleep(0.2)
        job.result()
    return most


chosen, fragments, read = packets(), packets(UCX_RNDV_THRESH="inf"), packets(UCX_RNDV_THRESH="0")
print(f"packets for a message of {LENGTH} bytes: {chosen:.1f}; in fragments {fragments:.1f}, read {read:.1f}")
if fragments < read + 3:
    raise AssertionError("the two ways are not told apart: UCX does not listen to UCX_RNDV_THRESH")
if abs(chosen - read) > abs(chosen - fragments) / 3:
    raise AssertionError("UCX sends it in fragments")

for way, settings in (("as chosen", {}), ("in fragments", {"UCX_RNDV_THRESH": "inf"})):
    copied, moved = bytes_by_way(**settings)
    print(f"{way}: {copied} bytes copied, {moved} moved by the devices")
    if copied + moved < 20 * LENGTH:
        raise AssertionError("comch_stat has not seen the job")
    little, much = (copied, moved) if way == "as chosen" else (moved, copied)
    if little > much / 20:
        raise AssertionError("comch_stat tells another way than that which the messages went")
