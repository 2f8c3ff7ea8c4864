"""comch over RDMA devices, beside raw verbs (the programs of the package perftest), libfabric's
verbs;ofi_rxm and UCX's own transport for such devices, rc_verbs. All of it inside the virtual machine of
scripts/vm-test.sh, which has two devices.
"""
import os

from . import libfabric, ucx
from .programs import figures_of, pair
from .rows import MIB, iterations
from .ucx import PairError, perftest_pair

PEERS = ("libfabric", "rc_verbs")
RAW = ("ib_send", "ib_write")
IB_PORT = 18515


def enter():
    """Checks that the devices are there. Nobody else is in the machine's network."""
    if "COMCH_VM_DPU_ADDRESS" not in os.environ:
        raise PairError("--set verbs runs in the virtual machine with RDMA devices: "
                        "scripts/vm-test.sh -- perftest/compare --set verbs")
    os.environ["COMCH_PRIVATE_NETWORK"] = "1"


def can(name, row):
    """A test of UCT's takes one device name for both sides, which rc_verbs' sides do not have."""
    return name in {"ucp": PEERS, "uct": ()}.get(row.level, ("libfabric",))


def tells(row):
    """Which of all messages' latencies run() tells."""
    return row.latency


def rc_verbs():
    """Its sides find each other as those of raw verbs do. What connects them are datagrams, whose sender
    soft-RoCE does not tell in the way that UCX checks."""
    common = {"UCX_IB_GID_INDEX": "1", "UCX_UD_VERBS_ETH_DGID_CHECK": "n"}
    return perftest_pair.Transport("rc_verbs,ud_verbs,self", settings={
        "host": common | {"UCX_NET_DEVICES": "rxe0:1"}, "dpu": common | {"UCX_NET_DEVICES": "rxe1:1"}})


def run_raw(name, row):
    program = f"{name}_{'lat' if row.is_latency else 'bw'}"
    # The GID with the device's IPv4 address is its second one; no complaints about CPU clocks.
    options = ["-x", "1", "-F", "-s", str(row.size), "-n", str(max(iterations(row), 10))]
    line = pair(f"{row.name} over {name}", rf"^ *{row.size} +\d.*$", [program, "-d", "rxe1", *options],
                [program, "-d", "rxe0", *options, os.environ["COMCH_VM_DPU_ADDRESS"]], IB_PORT, ({}, {}))
    columns = line.split()
    # Latency: minimum, maximum, typical, average; bandwidth: peak and average, in MiB/s (in Gbit/s there
    # would be too few digits).
    if row.is_latency:
        return float(columns[5 if row.latency == "mean" else 4])
    return float(columns[3]) * MIB / 1e9


def run_libfabric(name, row, build_dir):
    if name == "comch":
        return libfabric.run_tagged(name, row, build_dir, ["--seconds", "0.5"])
    # The queues for as many peers as it expects by default are larger than the device's longest.
    return libfabric.run_tagged("verbs;ofi_rxm", row, build_dir,
                                ["--seconds", "0.5", "--domains", "rxe1,rxe0"], {"FI_UNIVERSE_SIZE": "4"})


def run_core(row, build_dir):
    cpus = ucx.cpus()
    # From and into the same memory each time, as the programs of raw verbs do.
    command = [str(build_dir / "bin/comch_perftest"), "--both-sides", "--format", "json", "--buffers", "1",
               "--mode", "ping-pong" if row.is_latency else "one-way", "--sizes", str(row.size),
               "--count", str(iterations(row)), "--cpus", str(cpus[1]), "--server-cpus", str(cpus[0])]
    figures = figures_of(row.name, command)["results"][0]
    if row.is_latency:
        return figures["latency_us"]["mean" if row.latency == "mean" else "p50"]
    return figures["bytes_per_second"] / 1e9


def run(name, row, build_dir):
    """The row's figure, in its unit."""
    if name == "libfabric" or row.level == "fi":
        return run_libfabric(name, row, build_dir)
    if name in RAW:
        return run_raw(name, row)
    if name == "rc_verbs":
        return ucx.run_over(name, rc_verbs(), "", row)
    return run_core(row, build_dir) if row.level == "core" else ucx.run(name, row, build_dir)
