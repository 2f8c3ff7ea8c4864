"""comch and what MPI libraries use by themselves, through our own MPI program."""
import os
import pathlib

from .programs import run_program
from .rows import KIB
from .ucx import PairError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ("OpenMPI", "OpenMPI, UCX posix+cma", "MPICH")
BY_LIBFABRIC = "comch by way of libfabric"
SECONDS = "0.15"  # of measuring, in each job


def can(name, _row):
    return name in PEERS


def tells(row):
    """Which of all messages' latencies run() tells."""
    return "median" if row.test.endswith("_lat") else "mean"


def command_and_environment(name, row, build_dir):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("UCX_", "OMPI_"))}
    program = "openmpi/bench"
    launcher = ["mpirun.openmpi", "--oversubscribe", "-np", str(row.ranks)]
    crowded = row.ranks > len(os.sched_getaffinity(0))
    launcher += ["--bind-to", "none"] if crowded else ["--bind-to", "core"]
    if os.geteuid() == 0:
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if name == "comch":
        env["UCX_TLS"] = "comch,self"
        launcher += ["--tune", str(ROOT / "config/openmpi-comch.conf"), "-x",
                     f"LD_PRELOAD={build_dir.resolve()}/lib/ucx/libuct_comch.so"]
    elif name == BY_LIBFABRIC:
        launcher += ["--tune", str(ROOT / "config/openmpi-comch-ofi.conf"), "-x",
                     f"FI_PROVIDER_PATH={build_dir.resolve()}/lib/libfabric"]
    elif name == "OpenMPI, UCX posix+cma":
        env["UCX_TLS"] = "posix,cma,self"
        launcher += ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                     "--mca", "opal_common_ucx_devices", "any"]
    elif name == "MPICH":
        launcher = ["mpiexec.mpich", "-np", str(row.ranks)]
        if not crowded:
            launcher += ["-bind-to", "core"]
        program = "mpich/bench"
    return [*launcher, str(ROOT / "mpi_tests/side_wrapper.sh"), "mixed",
            str(build_dir.resolve() / "mpi_tests" / program), row.test.removeprefix("mpi_"),
            str(row.size), SECONDS], env


def run(name, row, build_dir):
    """In the row's unit."""
    title = f"{row.name} over {name}"
    result = run_program(title, *command_and_environment(name, row, build_dir))
    try:
        value = float(result.stdout.split()[-1])
    except (IndexError, ValueError):
        value = None
    if result.returncode != 0 or value is None:
        raise PairError(f"{title}: no result, exit code {result.returncode}\n"
                        f"{result.stdout}{result.stderr}")
    if row.is_latency:
        return value
    return value / row.size / 1e6 if row.size <= KIB else value / 1e9
