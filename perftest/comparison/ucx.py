"""comch and UCX's own shared-memory transports, through ucx_perftest."""
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import perftest_pair  # noqa: E402
from perftest_pair import PairError  # noqa: E402

from .rows import iterations  # noqa: E402

PEERS = {"posix": "posix,self", "sysv": "sysv,self", "posix+cma": "posix,cma,self"}


def transport_of(name, row, build_dir):
    allocation = "md:comch" if row.memory == "own" and name == "comch" else (
        "heap" if row.memory else "")
    if name == "comch":
        return perftest_pair.comch_transport(build_dir, allocation)
    return perftest_pair.Transport(PEERS[name], allocation=allocation)


def can(name, row):
    """UCT tests are of one transport; cma has no messages of its own. What starts without comch has both."""
    if row.level == "start":
        return name == "posix+cma"
    return name in PEERS and (row.level != "uct" or name != "posix+cma")


def tells(row):
    """Which of all messages' latencies run() tells."""
    return "median" if row.level == "start" else row.latency


def start_up(transport):
    """Microseconds of a program that opens UCX, has an endpoint to itself, and ends: the median of some."""
    times = []
    for _ in range(11):
        began = time.perf_counter()
        result = subprocess.run(["ucx_info", "-e", "-u", "t"], env=transport.environment("host"),
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        times.append((time.perf_counter() - began) * 1e6)
        if result.returncode != 0:
            raise PairError(f"ucx_info -e with UCX_TLS={transport.tls} failed:\n{result.stdout}{result.stderr}")
    return statistics.median(times)


def run(name, row, build_dir):
    """The row's figure for the transport `name`."""
    if row.level == "start":
        return start_up(transport_of(name, row, build_dir))
    device = "dpu0" if name == "comch" else "memory"
    return run_over(name, transport_of(name, row, build_dir), device, row)


def run_over(name, transport, device, row):
    count = iterations(row)
    if row.test in ("ucp_put_bw", "ucp_get") and name != "comch":
        # The peer's CPU has to help, and in these tests it progresses once in a millisecond.
        count = 10
    options = ["-t", row.test, "-s", str(row.size), "-n", str(count), "-w", str(max(2, count // 10))]
    if row.level == "uct":
        options += ["-x", name, "-d", device, "-D", row.layout]
    output = perftest_pair.run_pair(transport, [*options, "-v", "-f"])
    lines = [line for line in output.splitlines() if line.count(",") >= 6]
    for names, values in zip(lines, lines[1:]):
        if names.startswith("iterations,"):
            value = row.value(dict(zip(names.split(","), values.split(","))))
            if value > 0:
                return value
    raise PairError(f"ucx_perftest printed no result for {row.name} over {name}:\n{output}")


def cpus():
    pair = perftest_pair.two_cpus()
    if pair[0] is None:
        sys.exit("error: there is one CPU only; a comparison takes two (see nproc, taskset)")
    return pair
