"""What is tested in the virtual machine: one entry for every run of a program."""
import dataclasses
import os
import pathlib
import sys

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    command: list
    timeout: int = 300  # seconds: emulated, on a machine that may be crowded
    environment: dict = dataclasses.field(default_factory=dict)
    long: bool = False  # takes minutes


def script(name, file, *options, **more):
    return Test(name, [sys.executable, str(HERE / file), *options], **more)


TESTS = [
    # That the machine is what the others take it for.
    script("RDMA devices and connections", "rdma_stack.py"),
    Test("the link's contract", [str(BUILD / "bin/comch_rdma_tests")]),
    script("channels", "channels.py", timeout=1200),
    script("comch_info", "info.py"),
    script("comch_perftest, in short", "perftest.py",
           *(f"OverRdma.test_{name}" for name in
             ("server_and_client", "representors", "the_server_dies", "the_client_dies",
              "a_limit_of_locked_memory_that_is_too_low"))),
    script("comch_perftest", "perftest.py", timeout=1200, long=True),
    script("ucx_perftest, in short", "ucx.py", "--short"),
    script("ucx_perftest", "ucx.py", timeout=1200, long=True),
    script("UCP", "ucp.py", timeout=1500, long=True),
    script("OpenMPI", "mpi.py", timeout=1200),
    script("OpenMPI, the rest", "mpi.py", "--rest", timeout=1200, long=True),
    script("registrations", "registrations.py"),
    script("rendezvous", "rendezvous.py"),
    script("libfabric", "libfabric.py", timeout=1200),
    script("DOCA", "doca.py", timeout=1500, long=True),
    # Last: they take devices away.
    script("faults of devices", "faults.py", timeout=1200),
]
