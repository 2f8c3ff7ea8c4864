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


def script(name, file, **more):
    return Test(name, [sys.executable, str(HERE / file), "-v"], **more)


TESTS = [
    # That the machine is what the others take it for.
    script("RDMA devices and connections", "rdma_stack.py"),
]
