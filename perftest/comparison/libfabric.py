"""comch as libfabric's provider, beside libfabric's own for shared memory; and OpenMPI over it, beside
OpenMPI over UCX over comch.
"""
from . import mpi, ucx
from .programs import figures_of, pair
from .rows import iterations
from .ucx import perftest_pair

PEERS = ("shm", "UCX, comch")


def can(name, row):
    return name == ("UCX, comch" if row.level == "fi-mpi" else "shm")


def tells(row):
    """Which of all messages' latencies run() tells."""
    return mpi.tells(row) if row.level == "fi-mpi" else "mean" if row.test.startswith("pingpong") else row.latency


def environment(side, build_dir):
    return {"COMCH_SIDE": side, "FI_PROVIDER_PATH": str(build_dir.resolve() / "lib/libfabric")}


def run_pingpong(name, row, build_dir):
    port = perftest_pair.free_port()
    command = ["fi_pingpong", "-p", name, "-e", "rdm", "-S", str(row.size),
               "-I", str(max(10, iterations(row)))]
    line = pair(f"{row.name} over {name}", r"^\d+[kmg]? +\S+ +=.*$",
                [*command, "-B", str(port)], [*command, "-P", str(port), "127.0.0.1"], port,
                (environment("dpu", build_dir), environment("host", build_dir)))
    # bytes, #sent, #ack, total, time, MB/sec, usec/xfer, Mxfers/sec; the latency has two digits only
    megabytes = float(line.split()[5])
    return row.size / megabytes if row.is_latency else megabytes / 1000


def run_tagged(name, row, build_dir, options=(), more_environment=None):
    cpus = ucx.cpus()
    command = [str(build_dir / "bin/comch_fi_perftest"), "lat" if row.is_latency else "bw",
               "--provider", name, "--size", str(row.size), "--json", "--cpus",
               ",".join(map(str, cpus)), *options]
    if row.is_latency and row.latency == "median":
        command += ["--median"]
    if "used" in row.test:
        command += ["--used"]
    # libfabric 1.17's verbs provider may crash at the very end.
    figures = figures_of(f"{row.name} over {name}", command,
                         environment("host", build_dir) | (more_environment or {}), may_crash=True)[0]
    if row.is_latency:
        return figures["latency_us" if row.latency == "mean" else "median_latency_us"]
    return (figures["messages_per_second"] / 1e6 if row.unit == "M/s"
            else figures["bytes_per_second"] / 1e9)


def run(name, row, build_dir):
    """The row's figure, in its unit."""
    if row.level == "fi-mpi":
        return mpi.run(mpi.BY_LIBFABRIC if name == "comch" else "comch", row, build_dir)
    return (run_pingpong if row.test.startswith("pingpong") else run_tagged)(name, row, build_dir)
