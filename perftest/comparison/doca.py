"""The DOCA face beside the core that it stands on: what its calls, tasks and callbacks cost."""
from . import ucx
from .programs import figures_of
from .rows import KIB, iterations

PEERS = ("core",)


def can(name, _row):
    return name in PEERS


def tells(_row):
    """Which of all messages' latencies run() tells."""
    return "median"


def command(name, row, build_dir):
    cpus = [str(cpu) for cpu in ucx.cpus()]
    mode = "ping-pong" if row.is_latency else "one-way"
    if name == "core":
        return [str(build_dir / "bin/comch_perftest"), "--both-sides", "--format", "json", "--mode",
                mode, "--sizes", str(row.size), "--count", str(iterations(row)), "--cpus", cpus[1],
                "--server-cpus", cpus[0]]
    return [str(build_dir / "bin/comch_doca_perf"), "--mode", mode, "--size", str(row.size),
            "--count", str(iterations(row)), "--cpu", cpus[1], "--server-cpu", cpus[0]]


def run(name, row, build_dir):
    """The row's figure, in its unit."""
    figures = figures_of(f"{row.name} over {name}", command(name, row, build_dir))
    if name == "core":
        figures = figures["results"][0]
    if row.is_latency:
        return figures["latency_us"]["p50"]
    if row.size <= KIB:
        return figures["messages_per_second"] / 1e6
    return figures["bytes_per_second"] / 1e9
