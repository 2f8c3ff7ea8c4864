"""comch_info and comch_stat as their users see them: which setting is wrong, with which value, and what
is allowed; which described device is not on this machine."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from outcome import unittest_main

BIN = pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "bin"
# Addresses for documentation (RFC 5737): no machine has them.
DESCRIPTION = """
[domain]
name = "lab"
transport = "rdma"
[dpu]
name = "below"
pci = "03:00.0"
address = "203.0.113.2"
[[host]]
name = "above"
kind = "PF"
pci = "3b:00.0"
address = "203.0.113.1"
"""


class Tools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="comch-info-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, name, *options, status=0, **settings):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("COMCH_")}
        environment["COMCH_DOMAIN"] = str(self.folder / "domain")
        result = subprocess.run([BIN / name, *options], capture_output=True, text=True, check=False,
                                timeout=60, env={**environment, **settings})
        self.assertEqual(result.returncode, status, result)
        return result

    def test_a_described_rdma_device_that_is_not_here_is_named(self):
        file = self.folder / "rdma.toml"
        file.write_text(DESCRIPTION)
        for side, name, address in (("host", "above", "203.0.113.1"), ("dpu", "below", "203.0.113.2")):
            words = self.run_program("comch_info", "--domain-file", file, status=1,
                                     COMCH_SIDE=side)
            self.assertRegex(words.stderr, rf"^comch_info: device '{name}' .*{file}.* not on this machine")
            self.assertIn(address, words.stderr)
            self.assertRegex(words.stderr, "rdma link|ip addr")
            self.assertIn("Described, but not on this machine", words.stdout)
        shown = json.loads(self.run_program("comch_info", "--json", "--domain-file", file,
                                            status=1).stdout)
        self.assertEqual(shown["absent_devices"], ["above", "below"])

    def test_every_program_tells_its_version(self):
        header = pathlib.Path(os.environ["COMCH_SOURCE_DIR"]) / "core/include/comch/version.hpp"
        version = re.search(r' version = "([0-9.]+)"', header.read_text()).group(1)
        programs = [path.name for path in BIN.glob("comch_*")
                    if re.search("_(info|stat|perftest|perf|limits|scaling)$", path.name)]
        self.assertIn("comch_info", programs)
        for name in programs:
            self.assertEqual(self.run_program(name, "--version").stdout, f"comch {version}\n")
        self.assertEqual(json.loads(self.run_program("comch_info", "--json").stdout)["version"], version)

    def test_over_memory_no_device_is_absent(self):
        shown = self.run_program("comch_info", "--json")
        self.assertEqual(json.loads(shown.stdout)["absent_devices"], [])
        self.assertNotIn("not on this machine", self.run_program("comch_info").stdout)

    def test_bad_options_are_named_with_their_value(self):
        file = str(self.folder / "file")
        pathlib.Path(file).write_text("")
        for option, value, words in (("--domain", "a/b", "absolute path"),
                                     ("--domain", "-x" * 40, "bare name"),
                                     ("--domain", str(self.folder / "no/domain"), "No such file"),
                                     ("--domain", file, "not a directory"),
                                     ("--domain-file", str(self.folder / "no"), "No such file"),
                                     ("--domain-file", file, "dpu")):
            text = self.run_program("comch_info", f"{option}={value}", status=1).stderr
            self.assertIn(f"comch_info: {option} is '{value}'", text)
            self.assertIn(words, text)
        for name in ("comch_stat", "comch_perftest"):
            text = self.run_program(name, "--domain", "a/b", status=1).stderr
            self.assertIn(f"{name}: --domain is 'a/b'", text)
        text = self.run_program("comch_perftest", "--device", "nosuch", status=1).stderr
        self.assertIn("comch_perftest: --device: there is no device 'nosuch'", text)

    def test_bad_variables_are_named_with_their_value(self):
        for variable, value in (("COMCH_DOMAIN", "a/b"), ("COMCH_DOMAIN", "/nonexistent/domain"),
                                ("COMCH_DOMAIN_FILE", "/nonexistent.toml"), ("COMCH_SIDE", "left"),
                                ("COMCH_DEVICE", "nosuch")):
            text = self.run_program("comch_info", status=1, **{variable: value}).stderr
            self.assertRegex(text, rf"^comch_info: {variable}\b.*'{value}'")

    def test_both_tools_take_a_name_for_the_same_directory(self):
        name = f"info-test-{os.getpid()}"
        missing = self.run_program("comch_stat", "--domain", name, status=1).stderr
        shown = json.loads(self.run_program("comch_info", "--json", "--domain", name).stdout)
        directory = pathlib.Path(shown["directory"])
        self.addCleanup(directory.rmdir)
        self.addCleanup(lambda: [entry.unlink() for entry in directory.iterdir()])
        self.assertIn(f"no directory '{directory}'", missing)
        # A slash at the end is no other directory.
        missing = self.run_program("comch_stat", "--domain", f"{self.folder}/none/", status=1).stderr
        self.assertIn(f"no directory '{self.folder}/none'", missing)

    def test_a_directory_that_takes_no_files_is_named(self):
        full = self.folder / "full"
        full.mkdir(0o700)
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1,mode=0700", "none", full],
                           check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("needs root, to mount a full file system")
        self.addCleanup(subprocess.run, ["umount", full], check=True)
        text = self.run_program("comch_info", "--domain", full, status=1).stderr
        self.assertIn(f"--domain is '{full}'", text)
        self.assertIn("No space left", text)

    def test_a_name_need_not_be_utf8(self):
        text = self.run_program("comch_info", "--json", "--domain", os.fsencode(self.folder) + b"/\xff").stdout
        self.assertEqual(json.loads(text)["directory"], f"{self.folder}/\ufffd")

    def test_a_full_disk_behind_the_output_is_an_error(self):
        self.run_program("comch_info")
        for name in ("comch_info", "comch_stat"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([BIN / name], stdout=full, stderr=subprocess.PIPE, text=True,
                                        check=False, timeout=60,
                                        env={"COMCH_DOMAIN": str(self.folder / "domain")})
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("cannot write to standard output: No space left", result.stderr)


if __name__ == "__main__":
    unittest_main()
