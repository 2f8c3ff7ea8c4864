"""A "two-machine lab" on one machine: a host and a DPU in namespaces of their own.

Each has its own network, PID, IPC, UTS and mount namespace; a veth pair joins them, for start-up over
TCP. What they share is the file system, and with it the domain's directory. Needs root.
"""
import contextlib
import os
import shlex
import subprocess
import tempfile

import outcome

HOST_ADDRESS = "10.77.0.1"
DPU_ADDRESS = "10.77.0.2"
SUBNET = "10.77.0.0/24"


def _run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {result.stderr.strip()}")


class Lab:
    """The two network namespaces; processes get the other namespaces when they are started."""

    def __init__(self):
        outcome.want_root("to make network namespaces")
        # Interface names have at most 15 bytes, and other labs may be there.
        self.suffix = f"{os.getpid() % 100000}"
        self.names = {"host": f"comch-host-{self.suffix}", "dpu": f"comch-dpu-{self.suffix}"}

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            for name in self.names.values():
                _run("ip", "netns", "add", name)
                undo.callback(_run, "ip", "netns", "del", name)
            interfaces = {"host": f"ch{self.suffix}", "dpu": f"cd{self.suffix}"}
            _run("ip", "link", "add", interfaces["host"], "netns", self.names["host"], "type",
                 "veth", "peer", "name", interfaces["dpu"], "netns", self.names["dpu"])
            for side, address in (("host", HOST_ADDRESS), ("dpu", DPU_ADDRESS)):
                name = self.names[side]
                _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", interfaces[side])
                _run("ip", "-n", name, "link", "set", "lo", "up")
                _run("ip", "-n", name, "link", "set", interfaces[side], "up")
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self._undo.close()

    def command(self, side, command):
        """The argument list that runs `command` (a list) on a side, with COMCH_SIDE set."""
        inner = (f"hostname comch-{side}; export COMCH_SIDE={side}; exec {shlex.join(command)}")
        return ["nsenter", f"--net=/run/netns/{self.names[side]}", "unshare", "--pid", "--fork",
                "--kill-child", "--ipc", "--uts", "--mount-proc", "sh", "-c", inner]

    def remote_shell(self, directory):
        """Writes a program that does what ssh does for mpirun: `program ADDRESS COMMAND...` runs
        the command on the DPU."""
        path = os.path.join(directory, "dpu_shell")
        # The command comes as one or more words that a shell is to read again, as with ssh.
        prefix = ["nsenter", f"--net=/run/netns/{self.names['dpu']}", "unshare", "--pid", "--fork",
                  "--kill-child", "--ipc", "--uts", "--mount-proc", "sh", "-c"]
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nshift\n"
                       f"exec {shlex.join(prefix)} "
                       "\"hostname comch-dpu; export COMCH_SIDE=dpu; $*\"\n")
        os.chmod(path, 0o755)
        return path


def temporary_directory():
    return tempfile.TemporaryDirectory(prefix="comch-lab-")
