"""What the machine can do at best, through comch_limits."""
from .programs import figures_of

NAMES = ("hand-over", "line-rate", "memcpy", "stream", "process-vm")


def tells(_row):
    """Which of all messages' latencies run() tells."""
    return "median"


def run(name, row, program, cpus):
    """In the row's unit."""
    command = [str(program), name, "--json", "--seconds", "0.1", "--size", str(row.size),
               "--cpus", ",".join(map(str, cpus))]
    value = figures_of(name, command)[0]["value"]
    return value / 1000 if name == "hand-over" else value  # ns to µs
