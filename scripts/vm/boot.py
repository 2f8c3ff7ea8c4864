#!/usr/bin/env python3
"""Runs one command in the virtual machine and ends with its exit status.

usage: boot.py --kernel DIR --runs DIR [--logs DIR] [--folder DIR]... -- command...

The machine gets a folder of its own below --runs, which both sides see: the command and its
settings go in; its output, exit status and a heartbeat come out. The folder is gone at the end, the
logs are copied to --logs before. Exit status 124 says that the command took too long, 125 that the
machine itself crashed, hung or could not start.
"""
import argparse
import contextlib
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MACHINE_FAILED = 125
# Seconds; emulation on a crowded machine is slow.
TO_START = 300
TO_STOP = 60
# A command that cannot even be killed is left to us after so long.
TO_BE_KILLED = 60

# What the kernel says on its console when something is wrong with it.
CRASH = re.compile(
    r"Kernel panic|Oops|BUG: |general protection fault|Unable to handle|invalid opcode|WARNING: CPU"
    r"|blocked for more than|lockup|stall|refcount_t: |corruption|Out of memory|vm: cannot start")

# The machine was told to end: its first process may be gone before it does.
END = "sysrq: Power Off"

# The kernel's own checks of timers and detectors of CPUs that stand still go by the clock outside,
# where we may have been stopped for minutes; our watchdog does not.
KERNEL_ARGUMENTS = ("console=ttyS0 loglevel=5 tsc=reliable no_timer_check panic=-1 oops=panic "
                    "nowatchdog rcupdate.rcu_cpu_stall_suppress=1")


class Patience:
    """Counts only moments at which this process runs itself: while the machine outside is stopped or
    has no CPU for us, it has none for QEMU either."""

    def __init__(self, seconds):
        self.limit = self.left = seconds
        self.last = time.monotonic()

    def renew(self):
        self.left = self.limit

    def ran_out(self):
        now = time.monotonic()
        self.left -= min(now - self.last, 1)
        self.last = now
        return self.left < 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", type=pathlib.Path, required=True, help="of kernel.sh")
    parser.add_argument("--runs", type=pathlib.Path, required=True)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--folder", action="append", default=[], dest="folders",
                        help="a folder that the command must see, wherever it is")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--sign-of-life", type=float, default=120,
                        help="seconds after which a machine that gives none has hung")
    parser.add_argument("--memory", type=int, default=2048, help="MiB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def say(text):
    print(f"vm: {text}", flush=True)


@contextlib.contextmanager
def run_folder(parent):
    """A folder of this run. Its lock tells later runs that it is in use; what a killed run left is
    removed."""
    parent.mkdir(parents=True, exist_ok=True)
    with open(parent / "lock", "w", encoding="ascii") as making:
        fcntl.flock(making, fcntl.LOCK_EX)
        for other in parent.glob("run-*"):
            with contextlib.suppress(OSError), open(other / "lock", "w", encoding="ascii") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other, ignore_errors=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        lock = open(folder / "lock", "w", encoding="ascii")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def make_initramfs(folder, kernel):
    """busybox, the modules and our first process, as the kernel wants it."""
    tree = folder / "initramfs"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), tree / "bin/busybox")
    shutil.copytree(kernel / "modules", tree / "modules")
    shutil.copy(kernel / "load", tree / "modules/load")
    shutil.copy(HERE / "init", tree / "init")
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with open(folder / "initramfs.cpio", "wb") as file:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=tree, check=True,
                       input=names.encode(), stdout=file)
    shutil.rmtree(tree)


def write_job(lab, options):
    """What the second stage reads."""
    lab.mkdir()
    for name in ("inside.sh", "network.sh", "domain.toml"):
        shutil.copy(HERE / name, lab / name)
    here = os.getcwd()
    # Folders that the machine covers with empty ones of its own stay covered.
    covered = {"/", "/tmp", "/var/tmp", "/run", "/dev", "/dev/shm"}
    folders = [os.path.realpath(folder) for folder in [ROOT, here, *options.folders]]
    if any("\n" in folder for folder in folders):
        sys.exit("error: the virtual machine takes no folder with a line break in its name")
    (lab / "folders").write_text("".join(f"{folder}\n" for folder in folders
                                         if folder not in covered), encoding="utf-8")
    (lab / "job.sh").write_text(
        f"COMCH_VM_TIMEOUT={options.timeout:g}\n"
        f"COMCH_VM_FOLDER={shlex.quote(here)}\n"
        f"COMCH_VM_COMMAND=({shlex.join(options.command)})\n", encoding="utf-8")


def qemu_command(folder, options):
    def path(name):
        return str(folder / name).replace(",", ",,")  # as QEMU's options want it

    return ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
            "-smp", str(options.cpus), "-m", str(options.memory),
            "-kernel", str(options.kernel / "vmlinuz"), "-initrd", str(folder / "initramfs.cpio"),
            "-append", KERNEL_ARGUMENTS,
            "-chardev", f"file,id=console,path={path('console.log')}", "-serial", "chardev:console",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            "-virtfs", f"local,path={path('lab')},mount_tag=lab,security_model=none"]


class Tail:
    """What was added to a file since the last look."""

    def __init__(self, path):
        self.path = path
        self.offset = 0

    def read(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return b""
        self.offset += len(data)
        return data


class Run:
    """One boot: from the start of QEMU until it has ended."""

    def __init__(self, folder, options):
        self.lab = folder / "lab"
        self.options = options
        self.output = Tail(self.lab / "output")
        self.console = Tail(folder / "console.log")
        self.console_text = ""
        self.began = time.monotonic()
        self.last_output = self.began
        self.last_beat = None
        self.in_a_line = False
        self.beats = Patience(TO_START)
        self.total = Patience(TO_START + options.timeout + TO_BE_KILLED)

    def show_output(self):
        data = self.output.read()
        if data:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
            self.last_output = time.monotonic()
            self.in_a_line = not data.endswith(b"\n")
        elif time.monotonic() - self.last_output > 20:
            self.last_output = time.monotonic()
            self.end_line()
            say(f"still at it, {time.monotonic() - self.began:.0f} s"
                + ("" if self.last_beat else ", starting"))

    def end_line(self):
        """Before a line of our own."""
        if self.in_a_line:
            print(flush=True)
            self.in_a_line = False

    def crash(self):
        """The kernel's first complaint, if there is one."""
        self.console_text += self.console.read().decode(errors="replace")
        found = CRASH.search(self.console_text.partition(END)[0])
        if not found:
            return None
        return self.console_text[self.console_text.rfind("\n", 0, found.start()) + 1:].split("\n")[0]

    def look(self):
        """What is wrong with the machine, None if nothing."""
        self.show_output()
        crash = self.crash()
        if crash:
            return f"the kernel says: {crash.strip()}"
        with contextlib.suppress(FileNotFoundError):
            beat = (self.lab / "heartbeat").stat().st_mtime_ns
            if beat != self.last_beat:
                if self.last_beat is None:
                    self.beats = Patience(self.options.sign_of_life)
                self.last_beat = beat
                self.beats.renew()
        if self.beats.ran_out():
            return "it hangs: no sign of life for " + (
                f"{self.options.sign_of_life:g} s" if self.last_beat else f"{TO_START} s since its start")
        if self.total.ran_out():
            return f"the command neither ended nor could be killed ({self.options.timeout:g} s)"
        return None

    def status(self):
        try:
            return int((self.lab / "status").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def watch(self, qemu):
        """The command's exit status and what was wrong with the machine."""
        stopping = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                qemu.wait(0.1)
            ended = qemu.poll() is not None
            trouble = self.look()
            if trouble:
                if not ended and "kernel says" in trouble:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        qemu.wait(3)  # for the rest of what the kernel has to say
                return self.status(), trouble
            if ended:
                self.show_output()
                status = self.status()
                return status, None if status is not None else (
                    f"QEMU ended with {qemu.returncode} before the command did")
            if self.status() is not None:
                stopping = stopping or Patience(TO_STOP)
                if stopping.ran_out():
                    return self.status(), "it did not stop"


def keep_logs(folder, logs):
    logs.mkdir(parents=True, exist_ok=True)
    for name in ("console.log", "qemu.log", "lab/output", "lab/kernel.log", "lab/machine.log"):
        if (folder / name).exists():
            target = logs / (pathlib.Path(name).stem + ".log")
            shutil.copy(folder / name, target.with_suffix(".new"))
            target.with_suffix(".new").replace(target)


def show_end(title, path, lines=40):
    with contextlib.suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        if text:
            print(f"---- {title}", *text, "----", sep="\n", flush=True)


def boot(folder, options):
    """One run in an empty folder; the exit status, None if the machine did not even start."""
    make_initramfs(folder, options.kernel)
    write_job(folder / "lab", options)
    run = Run(folder, options)
    with open(folder / "qemu.log", "wb") as log, subprocess.Popen(
            qemu_command(folder, options), stdin=subprocess.DEVNULL, stdout=log, stderr=log) as qemu:
        try:
            status, trouble = run.watch(qemu)
        finally:
            qemu.kill()
            qemu.wait()
            if options.logs:
                keep_logs(folder, options.logs)
    run.end_line()
    if trouble:
        show_end("the end of the machine's console", folder / "console.log")
        show_end("the end of QEMU's log", folder / "qemu.log")
        show_end("the end of the machine's log", folder / "lab/machine.log")
    took = f"{time.monotonic() - run.began:.0f} s"
    where = f"; logs in {options.logs}" if options.logs else ""
    if trouble:
        say(f"FAILED after {took}: {trouble}{where}")
        return MACHINE_FAILED if run.last_beat else None
    say(f"{'passed' if status == 0 else 'FAILED'}, exit status {status}, {took}{where}")
    return status


def main():
    options = parse_arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        for last in (False, True):
            with run_folder(options.runs) as folder:
                status = boot(folder, options)
            if status is not None or last:
                return MACHINE_FAILED if status is None else status
            # Nothing of the command has run. Emulation that gets no CPU while the kernel starts can
            # make it give up.
            say("starting it again")
    except KeyboardInterrupt:
        say("interrupted")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
