"""Many connections beside one: what those cost that are quiet, and what many senders reach together."""
import resource

from . import ucx
from .programs import figures_of

PEERS = ("one connection",)
WHAT = {"quiet_lat": "quiet", "fan_in_bw": "fan-in"}
MANY = {"quiet_lat": 512, "fan_in_bw": 64}


def can(name, _row):
    return name in PEERS


def tells(_row):
    """Which of all messages' latencies run() tells."""
    return "median"


def run(name, row, build_dir):
    """The row's figure, in its unit."""
    cpus = ucx.cpus()
    # Two for each connection, in both processes: often more than a user may have open at first.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = MANY[row.test] if name == "comch" else 1
    value = figures_of(f"{row.name} over {count}", [
        str(build_dir / "bin/comch_scaling"), WHAT[row.test], "--connections", str(count),
        "--cpus", f"{cpus[1]},{cpus[0]}", "--json"])["value"]
    return value / 1e3 if row.is_latency else value  # µs, M/s
