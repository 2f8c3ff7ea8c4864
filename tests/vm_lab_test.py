"""The virtual machine itself: a command's output and exit status come out of it; a kernel that crashes,
a machine that hangs and a command that takes too long are told apart; nothing stays behind.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
CACHE = pathlib.Path(os.environ.get("COMCH_VM_CACHE", BUILD / "vm"))
MACHINE_FAILED = 125
PATIENCE = 600  # seconds; alone on a machine a run takes 10


def qemu_of(folder):
    """Command lines of QEMUs that use a folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if line.startswith("qemu-system") and str(folder) in line:
                found.append(line)
    return found


class Lab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernel = subprocess.run(
            ["bash", str(SOURCE / "scripts/vm/kernel.sh"), "--cache", str(CACHE)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        # Letters that shells, QEMU and 9p might stumble over.
        self.folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="comch vm,'ä-")))
        self.stack = stack

    def start(self, *command, options=(), runs="runs"):
        process = subprocess.Popen(
            [sys.executable, str(SOURCE / "scripts/vm/boot.py"), "--kernel", self.kernel,
             "--runs", str(self.folder / runs), "--logs", str(self.folder / "logs"), *options, "--",
             *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", cwd=self.folder)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
        self.stack.callback(end)
        return process

    def finish(self, process, status):
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, out)
        return out

    def assert_nothing_is_left(self, runs="runs"):
        self.assertEqual(list((self.folder / runs).glob("run-*")), [])
        self.assertEqual(qemu_of(self.folder), [])

    def test_two_at_once(self):
        (self.folder / "mine").write_text("what is in a file\n", encoding="utf-8")
        script = ('cat mine; pwd; rdma link show; echo "said $0" >&2; touch mine 2>&1; '
                  'touch /tmp/ours || exit 3; sleep 1; exit 7')
        both = [self.start("sh", "-c", script, word) for word in ("one", "two")]
        for word, process in zip(("one", "two"), both):
            out = self.finish(process, 7)
            for words in ("what is in a file", str(self.folder), "rxe0/1 state ACTIVE",
                          "rxe1/1 state ACTIVE", f"said {word}", "Read-only", "exit status 7"):
                self.assertIn(words, out)
        self.assert_nothing_is_left()
        self.assertIn("said", (self.folder / "logs/output.log").read_text(encoding="utf-8"))
        self.assertIn("Linux version", (self.folder / "logs/kernel.log").read_text(encoding="utf-8"))

    def test_a_crash_of_the_kernel(self):
        out = self.finish(self.start("sh", "-c", "echo before; echo c >/proc/sysrq-trigger; sleep 999"),
                          MACHINE_FAILED)
        self.assertIn("before", out)
        self.assertRegex(out, "vm: FAILED .*the kernel says: .*Kernel panic")
        self.assertIn("Kernel panic", (self.folder / "logs/console.log").read_text(encoding="utf-8"))
        self.assert_nothing_is_left()

    def test_a_complaint_of_the_kernel_that_goes_on(self):
        # Written to its log from outside, as the machine's own writers cannot be made to do it.
        out = self.finish(self.start("sh", "-c", "echo '<3>BUG: of the test' >/dev/kmsg; sleep 999"),
                          MACHINE_FAILED)
        self.assertRegex(out, "vm: FAILED .*the kernel says: .*BUG: of the test")
        self.assert_nothing_is_left()

    def test_a_machine_that_hangs(self):
        script = ("for pid in $(ps -eo pid= --no-headers); do [ $pid = $$ ] || kill -STOP $pid; done;"
                  "sleep 999")
        out = self.finish(self.start("sh", "-c", script, options=["--sign-of-life", "20"]),
                          MACHINE_FAILED)
        self.assertIn("no sign of life for 20 s", out)
        self.assert_nothing_is_left()

    def test_a_command_that_takes_too_long(self):
        out = self.finish(self.start("sh", "-c", "trap '' TERM; while :; do sleep 97; done",
                                     options=["--timeout", "3"]), 124)
        self.assertRegex(out, r"not done after 3 s(.|\n)*sleep 97")
        self.assert_nothing_is_left()

    def test_interrupts(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            process = self.start("sh", "-c", "echo running; sleep 999")
            self.assertIn("running", next(line for line in process.stdout if "running" in line))
            process.send_signal(number)
            self.finish(process, status)
            end = time.monotonic() + PATIENCE
            while qemu_of(self.folder):
                self.assertLess(time.monotonic(), end, "QEMU lives on")
                time.sleep(0.05)
        # Nothing could tidy up after the last one; the next run does.
        self.assertNotEqual(list((self.folder / "runs").glob("run-*")), [])
        self.finish(self.start("true"), 0)
        self.assert_nothing_is_left()

    def test_the_command_line(self):
        def run(*words):
            return subprocess.run(["bash", str(SOURCE / "scripts/vm-test.sh"), *words],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
        self.assertEqual(run("--no-such").returncode, 2)
        self.assertIn("usage:", run("--help").stdout)
        with tempfile.TemporaryDirectory(prefix="comch-vm-build-") as build:
            os.symlink(CACHE, pathlib.Path(build) / "vm")
            result = run("--no-install", "--build-dir", build, "--", "sh", "-c", "echo came; exit 9")
            self.assertEqual(result.returncode, 9, result.stdout + result.stderr)
            self.assertIn("came", (pathlib.Path(build) / "log/vm/output.log").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
