#!/usr/bin/env python3
"""Runs the MPI test programs over comch, under OpenMPI or MPICH, in many shapes of jobs.

    run.py --mpi openmpi --ranks 2,4 --layout mixed --tests all --build build

One job after the other; a line for each; the last line is "N passed, N failed".
"""
import argparse
import dataclasses
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LAYOUTS = ("host", "dpu", "mixed")
MPIS = ("openmpi", "mpich")

# Every process of a job carries this variable with the job's own random value: so those that are
# left behind are found, whatever process group or parent they have by then, and nobody else's.
MARK = "COMCH_MPI_JOB"

# What a domain's directory keeps when nobody is in it; see docs/configuration.md.
DOMAIN_KEEPS = {"domain.id", "domain.lock", "domain.toml"}

ABORT_CODE = 37
# What OpenMPI's launcher returns for a killed rank, and for one that loses a peer, says so and ends
# itself: UCX's way with errors that nobody handles.
KILLED = 128 + signal.SIGKILL
BEREAVED = 128 + signal.SIGABRT
# And of libfabric's way: the call that found the peer gone failed with MPI_ERR_INTERN, which nobody
# handled.
BEREAVED_LIBFABRIC = 17
# MPICH's returns the codes and signals of all ranks in one number, or'ed together.
ANY_FAILURE = set(range(1, 256))


@dataclasses.dataclass(frozen=True)
class Case:
    """One program with its arguments and the ways in which its job may end."""

    name: str
    program: str
    arguments: tuple = ()
    # For each MPI, the exit codes that are right. With 0, "PASS" is expected too.
    codes: dict = dataclasses.field(default_factory=lambda: {mpi: {0} for mpi in MPIS})
    # Seconds: a limit of its own for a job that must be quick.
    limit: float | None = None

    @property
    def must_pass(self):
        return self.codes["openmpi"] == {0}


def abort_case(how, others):
    # Only MPI_Abort promises a code. Else it is that of the rank which ended first as the launcher
    # saw it: the dying one or one that missed it.
    codes = {
        "mpi_abort": {mpi: {ABORT_CODE} for mpi in MPIS},
        "exit": {"openmpi": {ABORT_CODE, BEREAVED}, "mpich": ANY_FAILURE},
        "kill": {"openmpi": {KILLED, BEREAVED}, "mpich": ANY_FAILURE},
    }[how]
    return Case(f"abort-{how}-{others}", "abort", ("--how", how, "--others", others), codes, 20)


CASES = {
    name: [Case(name, name)]
    for name in (
        "pt2pt_sizes",
        "pt2pt_modes",
        "matching",
        "collectives",
        "nonblocking_collectives",
        "onesided",
        "datatypes",
        "threads",
        "communicators",
        "storm",
    )
}
CASES["abort"] = [
    abort_case(how, others)
    for how in ("mpi_abort", "exit", "kill")
    for others in ("receive", "barrier", "bulk", "compute")
]
# Not in "all": one needs 5 GiB of memory, one a transport that does without its target, one OpenMPI.
EXTRA_CASES = {
    "huge": [Case("huge", "pt2pt_sizes", ("--huge",))],
    "computing_target": [Case("computing_target", "computing_target")],
    "openshmem": [Case("openshmem", "openshmem")],
}


def words(kind, allowed):
    """An argparse type: a comma-separated list of `allowed` words."""

    def parse(text):
        parts = [part for part in text.split(",") if part]
        for part in parts:
            if part not in allowed:
                raise argparse.ArgumentTypeError(
                    f"'{part}' is no {kind}: use {', '.join(allowed)}"
                )
        if not parts:
            raise argparse.ArgumentTypeError(f"names no {kind}")
        return parts

    return parse


def rank_counts(text):
    counts = []
    for part in text.split(","):
        if not part.isdecimal() or int(part) < 2:
            raise argparse.ArgumentTypeError(f"'{part}' is no number of ranks (2 or more)")
        counts.append(int(part))
    return counts


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0],
        epilog="tests: " + ", ".join([*CASES, *EXTRA_CASES]) + " (the last three not in 'all')",
    )
    parser.add_argument("--mpi", type=words("MPI", MPIS), default=["openmpi"],
                        help="openmpi, mpich, or both with a comma (default: openmpi)")
    parser.add_argument("--ranks", type=rank_counts, default=[4],
                        help="numbers of ranks, such as 2,4,8,16 (default: 4)")
    parser.add_argument("--layout", type=words("layout", LAYOUTS), default=["mixed"],
                        help="sides of the ranks: host, dpu, mixed (default: mixed)")
    parser.add_argument("--tests", type=words("test", ["all", *CASES, *EXTRA_CASES]),
                        default=["all"], help="names of tests, or all (default)")
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("COMCH_BUILD_DIR", ROOT / "build")),
                        help="the build folder (default: $COMCH_BUILD_DIR, else build)")
    parser.add_argument("--transport", default="comch",
                        help="comch (default); comch-ofi: comch by way of libfabric, OpenMPI only; or "
                        "transports of UCX's own for comparison, such as posix; with those comch's "
                        "counters are not looked at")
    parser.add_argument("--domain", type=pathlib.Path,
                        help="domain directory (default: a fresh one, removed at the end)")
    parser.add_argument("--timeout", type=float, default=180,
                        help="seconds for one job (default: 180)")
    parser.add_argument("--logs", type=pathlib.Path,
                        help="folder for the jobs' output (default: BUILD/mpi_tests/logs)")
    parser.add_argument("--junit", type=pathlib.Path, help="also write results there, as XML")
    parser.add_argument("--list", action="store_true", help="show what would run, and stop")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.logs = (options.logs or options.build / "mpi_tests" / "logs").resolve()
    return options


@dataclasses.dataclass
class Job:
    """One case in one shape."""

    mpi: str
    ranks: int
    layout: str
    case: Case

    @property
    def name(self):
        return f"{self.mpi}-{self.ranks}-{self.layout}-{self.case.name}"

    def __str__(self):
        return f"{self.mpi:<8}{self.ranks:>2} ranks {self.layout:<6} {self.case.name}"


@dataclasses.dataclass
class Result:
    job: Job
    seconds: float
    problems: list
    log: pathlib.Path


# Groups of cases that are left out over libfabric: what OpenMPI 4.1 fails with any provider
# (docs/libfabric.md), and what it does in shared memory of its own where all ranks run on one machine.
LEFT_OUT = {"comch-ofi": {"pt2pt_modes": ["persistent buffered"],
                          "onesided": ["compare_and_swap", "allocated window"]}}
# Ways to comch: what is loaded for it, and OpenMPI's settings.
LIBRARIES = {"comch": "ucx/libuct_comch.so", "comch-ofi": "libfabric/libcomch-fi.so"}
TUNING = {"comch": "openmpi-comch.conf", "comch-ofi": "openmpi-comch-ofi.conf"}


def over_comch(options):
    return options.transport in LIBRARIES


def library(options):
    return options.build / "lib" / LIBRARIES[options.transport]


def transport_settings(options):
    """The environment that makes the job use the transport, and nothing else."""
    if not over_comch(options):
        return {"UCX_TLS": f"{options.transport},self"}
    settings = {
        "COMCH_MPI_REQUIRE_COUNTERS": "1",
        "COMCH_DOMAIN": str(options.domain),
    }
    if options.transport == "comch-ofi":
        settings["FI_PROVIDER_PATH"] = str(library(options).parent)
    else:
        settings["UCX_TLS"] = "comch"
    return settings


def command_and_environment(options, job, mark):
    environment = dict(os.environ)
    environment.update(transport_settings(options))
    environment[MARK] = mark
    preload = []
    if options.transport == "comch":
        preload.append(str(library(options)))
    crowded = job.ranks >= len(os.sched_getaffinity(0))
    if job.mpi == "openmpi":
        if os.geteuid() == 0:
            environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        launcher = ["mpirun.openmpi", "--tune",
                    str(ROOT / "config" / TUNING.get(options.transport, TUNING["comch"])),
                    "--oversubscribe", "--bind-to", "none", "-np", str(job.ranks)]
        if crowded:
            launcher += ["--mca", "mpi_yield_when_idle", "1"]
    else:
        launcher = ["mpiexec.mpich", "-configfile", str(ROOT / "config" / "mpich-comch.conf"),
                    "-np", str(job.ranks)]
        if crowded:
            preload.append(str(options.build / "mpi_tests" / "libyield_when_idle.so"))
    # For the ranks only: in the launcher, the transport would open nothing but cost a start.
    if preload:
        value = ":".join(preload)
        launcher += (["-x", f"LD_PRELOAD={value}"] if job.mpi == "openmpi"
                     else ["-genv", "LD_PRELOAD", value])
    program = options.build / "mpi_tests" / job.mpi / job.case.program
    left_out = LEFT_OUT.get(options.transport, {}).get(job.case.program, [])
    return (launcher + [str(HERE / "side_wrapper.sh"), job.layout, str(program), *job.case.arguments,
                        *(word for group in left_out for word in ("--without", group))], environment)


def processes_of(mark):
    """Living processes whose environment carries the job's mark: {pid: command line}."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            # A zombie's environment is empty: it is gone but for its parent.
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = line.strip() or "?"
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return found


def wait_until_gone(mark, seconds):
    """Waits for all processes of the job to end; what is left after `seconds`."""
    end = time.monotonic() + seconds
    while left := processes_of(mark):
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return {}


def kill_job(process, mark):
    """Ends the launcher's process group, then what is left of the job elsewhere."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)  # its own group: started with start_new_session
        except ProcessLookupError:
            pass
        try:
            process.wait(timeout=5)
            break
        except subprocess.TimeoutExpired:
            pass
    for pid in wait_until_gone(mark, 2):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def left_in_domain(options):
    if not over_comch(options) or not options.domain.is_dir():
        return []
    return sorted(e.name for e in options.domain.iterdir() if e.name not in DOMAIN_KEEPS)


def judge(options, job, code, text, seconds):
    """What is wrong with the way in which the job ended."""
    problems = []
    expected = job.case.codes[job.mpi]
    if options.transport == "comch-ofi" and BEREAVED in expected:
        expected = expected | {BEREAVED_LIBFABRIC}
    if code not in expected:
        right = "a failure" if expected is ANY_FAILURE else " or ".join(map(str, sorted(expected)))
        problems.append(f"exit code {code}, expected {right}")
    passes = text.splitlines().count(f"PASS {job.case.program}")
    if job.case.must_pass:
        if passes != 1:
            problems.append(f"printed PASS {passes} times instead of once")
        if left := left_in_domain(options):
            problems.append(f"left in the domain {options.domain}: {', '.join(left)}")
    elif "FAIL " in text:
        problems.append("a rank printed FAIL")
    elif code != ABORT_CODE and "rank ends by" not in text:
        # (With its own code it ended as it was told; the launcher may lose its last words.)
        problems.append("ended before the end that was to be tested")
    if job.case.limit is not None and seconds > job.case.limit:
        problems.append(f"took {seconds:.1f} s, the limit is {job.case.limit:.0f} s")
    return problems


def run_job(options, job):
    mark = secrets.token_hex(8)
    command, environment = command_and_environment(options, job, mark)
    path = options.logs / f"{job.name}.log"
    start = time.monotonic()
    problems = []
    with open(path, "w", encoding="utf-8", errors="replace") as log:
        settings = {k: v for k, v in environment.items() if os.environ.get(k) != v}
        log.write("$ env " + " ".join(f"{k}={v}" for k, v in settings.items()) + " \\\n    " +
                  " ".join(command) + "\n")
        log.flush()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(timeout=job.case.limit or options.timeout)
        except subprocess.TimeoutExpired:
            problems.append(f"not finished after {job.case.limit or options.timeout:.0f} s")
            kill_job(process, mark)
            code = None
        except BaseException:
            kill_job(process, mark)
            raise
    seconds = time.monotonic() - start
    if code is not None:
        problems += judge(options, job, code, path.read_text(errors="replace"), seconds)
        if left := wait_until_gone(mark, 3):
            problems.append("left running: " + "; ".join(f"{p} {c}" for p, c in left.items()))
            kill_job(process, mark)
    return Result(job, seconds, problems, path)


def check_prerequisites(options, jobs):
    """The first reason why the jobs cannot run, or None."""
    needed = [options.build / "mpi_tests" / job.mpi / job.case.program for job in jobs]
    needed.append(options.build / "mpi_tests" / "libyield_when_idle.so")
    if options.transport == "comch-ofi" and "mpich" in options.mpi:
        return "comch-ofi is for OpenMPI: Debian's MPICH is built for UCX only"
    if over_comch(options):
        needed.append(library(options))
    for path in needed:
        if not path.exists():
            return f"{path} is not there: build first (cmake --build {options.build}), or name " \
                   "another build folder with --build"
    for mpi in options.mpi:
        launcher = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}[mpi]
        if shutil.which(launcher) is None:
            return f"{launcher} is not in the PATH: install {mpi} (Debian: {mpi}-bin or {mpi})"
    return None


def write_junit(path, results):
    suite = ElementTree.Element("testsuite", name="mpi_tests", tests=str(len(results)),
                                failures=str(sum(1 for r in results if r.problems)),
                                time=f"{sum(r.seconds for r in results):.3f}")
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=f"mpi.{result.job.mpi}",
                                      name=result.job.name, time=f"{result.seconds:.3f}")
        if result.problems:
            failure = ElementTree.SubElement(case, "failure", message="; ".join(result.problems))
            failure.text = result.log.read_text(errors="replace")
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def print_failure(result):
    for problem in result.problems:
        print(f"      {problem}")
    lines = result.log.read_text(errors="replace").splitlines()
    # What the programs say first; then the end, for what the launcher says.
    for line in [line for line in lines if "FAIL " in line][:5]:
        print(f"      | {line}")
    for line in lines[-15:]:
        print(f"      | {line}")
    print(f"      log: {result.log}")


def run_all(options, jobs):
    results = []
    width = len(str(len(jobs)))
    for number, job in enumerate(jobs, 1):
        print(f"[{number:>{width}}/{len(jobs)}] {str(job):<52}", end=" ", flush=True)
        result = run_job(options, job)
        results.append(result)
        print(f"{'FAILED' if result.problems else 'ok':<7}{result.seconds:6.1f} s", flush=True)
        if result.problems:
            print_failure(result)
    return results


def main():
    options = parse_arguments()
    known = {**CASES, **EXTRA_CASES}
    names = list(CASES) if "all" in options.tests else []
    names += [name for name in options.tests if name != "all" and name not in names]
    jobs = [Job(mpi, ranks, layout, case)
            for mpi in options.mpi for ranks in options.ranks for layout in options.layout
            for name in names for case in known[name]]
    if options.list:
        print("\n".join(map(str, jobs)))
        return 0
    if reason := check_prerequisites(options, jobs):
        print(f"error: {reason}", file=sys.stderr)
        return 2
    options.logs.mkdir(parents=True, exist_ok=True)
    # A domain of its own: nobody else's processes in it, so what is left there is ours.
    fresh = None
    if options.domain is None and over_comch(options):
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        fresh = options.domain = pathlib.Path(tempfile.mkdtemp(prefix="comch-mpi-", dir=shm))
    # A polite end must end the jobs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = run_all(options, jobs)
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
    if options.junit:
        write_junit(options.junit, results)
    failed = sum(1 for result in results if result.problems)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
