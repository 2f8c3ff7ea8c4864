"""How often memory is registered with the RDMA devices: by an MPI job over UCX its buffers once, and
not for every message; through libfabric what the program has registered, once, and buffers where
registrations are kept: by default those that only the own device is at. Counted are the calls that
registering takes (ioctl), under strace.
"""
import os
import pathlib
import subprocess
import tempfile

import over_rdma
from machine import BUILD, SOURCE

SECONDS = "1"  # of measuring: some dozens of messages of a MiB
MIB = 1 << 20


def calls(size, **settings):
    """ioctl() of both ranks of a job that sends messages of the size to and fro."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("UCX_", "OMPI_"))}
    env |= {"UCX_TLS": "comch,self", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} | settings
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["mpirun.openmpi", "--oversubscribe", "-np", "2", "--bind-to", "none", "--tune",
             SOURCE / "config/openmpi-comch.conf", "-x", f"LD_PRELOAD={BUILD}/lib/ucx/libuct_comch.so",
             SOURCE / "mpi_tests/side_wrapper.sh", "mixed", "strace", "-ff", "-e", "trace=ioctl", "-o",
             f"{folder}/calls", BUILD / "mpi_tests/openmpi/bench", "lat", str(size), SECONDS],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
        if result.returncode != 0:
            raise AssertionError(f"the job ended with {result.returncode}:\n{result.stdout}"
                                 f"{result.stderr}")
        return sum(path.read_text().count("ioctl(") for path in pathlib.Path(folder).iterdir())


def calls_through_libfabric(test, **settings):
    """ioctl() of both processes: of their threads, the most first."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["strace", "-ff", "-e", "trace=ioctl", "-o", f"{folder}/calls",
             BUILD / "bin/comch_fi_perftest", test, "--size", "256K", "--window", "8", "--seconds", "1"],
            env=os.environ | {"FI_PROVIDER_PATH": f"{BUILD}/lib/libfabric"} | settings, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=240, check=True)
        # (Not what the kernel is asked about memory that is unmapped; and a device's empty places for
        # addresses are asked for, too, and answered by an error.)
        return sorted((sum(line.endswith(" = 0") and "UFFDIO" not in line for line in
                           path.read_text().splitlines()) for path in pathlib.Path(folder).iterdir()),
                      reverse=True)


def demand(condition, text):
    if not condition:
        raise AssertionError(text)


def an_impossible_cache_is_an_error():
    """What is asked for and cannot be had is said, and no device is offered."""
    result = subprocess.run(
        ["ucx_info", "-d"], env=os.environ | {"LD_PRELOAD": f"{BUILD}/lib/ucx/libuct_comch.so",
                                              "UCX_COMCH_RCACHE": "y", "UCX_MEM_MMAP_HOOK_MODE": "none"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    demand("UCX_COMCH_RCACHE=y" in result.stdout + result.stderr and
           "Transport: comch" not in result.stdout, result.stdout + result.stderr)


witness = over_rdma.Witness()
small = calls(8)
kept = calls(MIB)
not_kept = calls(MIB, UCX_COMCH_RCACHE="n")
print(f"calls to register: {small} for small messages, {kept} for large ones, {not_kept} where "
      "registrations are not kept")
demand(kept <= small + 30, "buffers are registered again and again")
demand(not_kept >= kept + 30, "nothing was registered: this test sees nothing")
witness.assert_used(1000)
writes, reads = (calls_through_libfabric(test) for test in ("write", "read"))
none, own, windows, everything = (calls_through_libfabric("bw", FI_COMCH_KEEP_REGISTRATIONS=what)
                                  for what in ("no", "own", "windows", "all"))
default = calls_through_libfabric("bw")
print(f"calls to register, through libfabric, of each thread: {writes} for writes, {reads} for reads; for "
      f"messages {none} if none is kept, {own} if the own ones are, {windows} with windows, {everything} if all are, "
      f"{default} by default")
demand(sum(none) >= max(map(sum, (writes, reads, everything))) + 40,
       "every message is registered, or what the program registered is for each write or read")
# Each message costs its sender two calls, and by default its receiver none.
for kept in own, default:
    demand(kept[0] >= everything[0] + 20, "what peers may read is kept")
    demand(kept[1] <= everything[1] + 20 <= none[1], "what only the own device is at is not kept")
demand(all(few <= least + 30 and few <= most - 20 for few, least, most in zip(windows, everything, none)),
       "with windows, messages' buffers are registered again and again")
an_impossible_cache_is_an_error()
