"""What the tests in the virtual machine share: its two sides, and processes that end with the test."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
ADDRESS = {"host": os.environ["COMCH_VM_HOST_ADDRESS"], "dpu": os.environ["COMCH_VM_DPU_ADDRESS"]}
DEVICE = {"host": "rxe0", "dpu": "rxe1"}
INTERFACE = {"host": "h0", "dpu": "d0"}
PATIENCE = 90  # seconds for what takes far less


def sent_packets(side):
    """What the side's RDMA device has sent so far."""
    return int(pathlib.Path(f"/sys/class/infiniband/{DEVICE[side]}/ports/1/hw_counters/sent_pkts")
               .read_text(encoding="ascii"))


def receivers_not_ready():
    """How often a device met a receiver without buffers, or was met so."""
    folders = [pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
               for device in DEVICE.values()]
    return sum(int((folder / name).read_text(encoding="ascii"))
               for folder in folders for name in ("rcvd_rnr_err", "send_rnr_err"))


def wait_for(condition, what, patience=PATIENCE):
    """The condition's value as soon as it has one."""
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {patience} s")
        time.sleep(0.02)
    return value


def restore_network():
    """Makes what a test took away: devices, addresses, routes."""
    subprocess.run(["bash", str(SOURCE / "scripts/vm/network.sh")], check=True,
                   stdin=subprocess.DEVNULL, timeout=PATIENCE)


def renew_devices():
    """New devices in the place of those whose interface was down: soft-RoCE breaks each queue pair that
    has something to send then, rdma_cm's own included, and nobody could connect any more. All who use
    them must have ended."""
    for device in DEVICE.values():
        subprocess.run(["rdma", "link", "del", device], check=True, stdin=subprocess.DEVNULL,
                       timeout=PATIENCE)
    restore_network()


def whereabouts(pid):
    """Where a process that should have ended, and its children, are: for whoever reads the log."""
    words = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        for name in ("comm", "wchan", "syscall", "stack"):
            with contextlib.suppress(OSError):
                words.append(f"{task}/{name}: {(task / name).read_text(encoding='utf-8').strip()}")
    if debugger := shutil.which("gdb"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            words.append(subprocess.run([debugger, "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"],
                                        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                        timeout=120).stdout)
    children = subprocess.run(["pgrep", "-P", str(pid)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False).stdout.split()
    return "\n".join([*words, *map(whereabouts, children)])


def run(*command, **environment):
    """As subprocess.run() of a program that must succeed; if it takes too long, says where it is."""
    with Processes() as processes:
        process = processes.start(*command, **environment)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{command}: not after {PATIENCE} s\n{whereabouts(process.pid)}") from late
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command, out, err)


class Processes(contextlib.ExitStack):
    """Starts processes; kills at the end those that live then."""

    def start(self, *command, **environment):
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env=os.environ | environment)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.callback(end)
        return process

    def finish(self, process, status=0, patience=PATIENCE):
        """What it said on both streams; it must end by itself, with that status."""
        out, err = process.communicate(timeout=patience)
        if status is not None and process.returncode != status:
            raise AssertionError(f"{process.args} ended with {process.returncode}, not {status}:\n"
                                 f"{out}{err}")
        return out, err

    def run(self, *command, status=0, **environment):
        return self.finish(self.start(*command, **environment), status)
