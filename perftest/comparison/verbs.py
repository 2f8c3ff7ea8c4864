"""comch over RDMA devices, beside raw verbs (the programs of the package perftest) and libfabric's
verbs;ofi_rxm. All of it inside the virtual machine of scripts/vm-test.sh, which has two devices.
"""
import json
import os
import re
import subprocess
import time

from . import ucx
from .rows import iterations
from .ucx import PairError, perftest_pair

PEERS = ("ib_send", "ib_write", "libfabric")
TIMEOUT = 120  # seconds for one run; it takes a few
FI_PORT = 47592
IB_PORT = 18515


def enter():
    """Checks that the devices are there. Nobody else is in the machine's network."""
    if "COMCH_VM_DPU_ADDRESS" not in os.environ:
        raise PairError("--set verbs runs in the virtual machine with RDMA devices: "
                        "scripts/vm-test.sh -- perftest/compare --set verbs")
    os.environ["COMCH_PRIVATE_NETWORK"] = "1"


def can(name, row):
    """fi_pingpong has no stream in one direction; for latencies ib_send is the limit."""
    return name == "libfabric" if row.is_latency else name in ("ib_send", "ib_write")


def pair(row, name, result, server, client, port, environment):
    """The line of the client's output that the expression finds."""
    cpus = perftest_pair.two_cpus()
    env = os.environ | environment
    deadline = time.monotonic() + TIMEOUT
    running = perftest_pair.start(server, env, cpus[0])
    try:
        while not perftest_pair.is_listening(port):
            if running.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        asking = perftest_pair.start(client, env, cpus[1])
        out = perftest_pair.finish(asking, deadline)
        server_out = perftest_pair.finish(running, deadline if asking.returncode == 0
                                          else time.monotonic() + 2)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    # The result counts, not the exit code: libfabric 1.17's verbs provider may crash at the very end.
    found = re.search(result, out, re.MULTILINE)
    if not found:
        raise PairError(f"{row.name} over {name}: no result, exit code {asking.returncode}\n"
                        f"{out}{server_out}")
    return found[0]


def run_raw(name, row):
    program = f"{name}_{'lat' if row.is_latency else 'bw'}"
    # The GID with the device's IPv4 address is its second one; no complaints about CPU clocks.
    options = ["-x", "1", "-F", "-s", str(row.size), "-n", str(max(iterations(row), 10))]
    if not row.is_latency:
        options += ["--report_gbits"]
    line = pair(row, name, rf"^ *{row.size} +\d.*$", [program, "-d", "rxe1", *options],
                [program, "-d", "rxe0", *options, os.environ["COMCH_VM_DPU_ADDRESS"]], IB_PORT, {})
    columns = line.split()
    # Latency: minimum, maximum, typical, average; bandwidth: peak and average, in Gbit/s.
    return float(columns[5]) if row.is_latency else float(columns[3]) / 8


def run_libfabric(row):
    # The queues for as many peers as it expects by default are larger than the device's longest.
    environment = {"FI_UNIVERSE_SIZE": "4"}
    options = ["-p", "verbs;ofi_rxm", "-e", "rdm", "-I", str(iterations(row)), "-S", str(row.size)]
    line = pair(row, "libfabric", r"^\d+[kmg]? +\S+ +=.*$", ["fi_pingpong", *options, "-d", "rxe1"],
                ["fi_pingpong", *options, "-d", "rxe0", os.environ["COMCH_VM_DPU_ADDRESS"]], FI_PORT,
                environment)
    # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec
    return float(line.split()[6])


def run_core(row, build_dir):
    cpus = ucx.cpus()
    command = [str(build_dir / "bin/comch_perftest"), "--both-sides", "--format", "json",
               "--mode", "ping-pong" if row.is_latency else "one-way", "--sizes", str(row.size),
               "--count", str(iterations(row)), "--cpus", str(cpus[1]), "--server-cpus", str(cpus[0])]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=TIMEOUT, check=False)
    if result.returncode != 0:
        raise PairError(f"{row.name} ended with {result.returncode}:\n{result.stderr}")
    figures = json.loads(result.stdout)["results"][0]
    return figures["latency_us"]["mean"] if row.is_latency else figures["bytes_per_second"] / 1e9


def run(name, row, build_dir):
    """The row's figure, in its unit."""
    if name == "libfabric":
        return run_libfabric(row)
    if name in PEERS:
        return run_raw(name, row)
    return run_core(row, build_dir) if row.level == "core" else ucx.run(name, row, build_dir)
