"""What UCX is offered: the transport as ucx_info shows it, its settings with their help, and nothing,
with a clear warning, in a UCX that it was not built for."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
LIBRARY = BUILD / "lib/ucx/libuct_comch.so"


class Offer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="comch-offer-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *command, preload=(LIBRARY,), **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("UCX_", "COMCH_"))}
        env.update({"LD_PRELOAD": ":".join(map(str, preload)),
                    "COMCH_DOMAIN": str(self.folder / "domain"), **settings})
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)

    def info(self, *options, **keywords):
        result = self.run_program("ucx_info", *options, **keywords)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def section(self, text):
        """What ucx_info -d says of our transport."""
        found = re.search(r"# Memory domain: comch\n(.*?)(?=# Memory domain|# Connection manager|\Z)",
                          text, re.DOTALL)
        self.assertIsNotNone(found, text[-3000:])
        return found.group(1)

    def test_transport_and_device_are_shown(self):
        for side in ("host", "dpu"):
            section = self.section(self.info("-d", COMCH_SIDE=side))
            self.assertIn("Transport: comch", section)
            self.assertEqual(section.count("Device: "), 1, "one device per process is offered")
            for capability in ("am_short", "am_bcopy", "am_zcopy", "put_short", "put_bcopy",
                               "put_zcopy", "get_short", "get_bcopy", "get_zcopy", "atomic_add",
                               "atomic_fadd", "atomic_cswap", "connection: to iface",
                               "error handling: peer failure, ep_check"):
                self.assertIn(capability, section)
            self.assertRegex(section, r"bandwidth: .*[1-9]")

    def test_settings_are_shown_with_help(self):
        text = self.info("-cf")
        for name in ("DOMAIN", "SIDE", "DEVICE", "HOST_DPU_ONLY", "SHORT_MAX", "RCACHE", "BW",
                     "LAT"):
            found = re.search(rf"((?:^#.*\n)+)#?\n?UCX_COMCH_{name}=", text, re.MULTILINE)
            self.assertIsNotNone(found, f"UCX_COMCH_{name} has no help text")
            self.assertGreater(len(found.group(1).strip("# \n")), 20, name)

    def test_a_bad_setting_is_named_and_others_work_on(self):
        for setting, value in (("UCX_COMCH_SIDE", "left"), ("COMCH_SIDE", "left"),
                               ("UCX_COMCH_DEVICE", "nosuch"), ("COMCH_DOMAIN", "a/b"),
                               ("UCX_COMCH_DOMAIN", "/nonexistent-folder")):
            given = value + "/domain" if value.startswith("/") else value
            result = self.run_program("ucx_info", "-d", **{setting: given})
            text = result.stdout + result.stderr
            self.assertEqual(result.returncode, 0, text[-2000:])
            self.assertRegex(text, rf"ERROR +comch: {setting}\b.*{re.escape(value)}",
                             f"{setting}={value}")
            self.assertIn("Transport: tcp", text)

    def stub(self, major, minor, release=0):
        """A library by which UCX says that it is another one."""
        source = self.folder / "stub.c"
        stub = self.folder / f"stub{major}.{minor}.{release}.so"
        source.write_text("void ucp_get_version(unsigned *a, unsigned *b, unsigned *c)\n"
                          f"{{ *a = {major}; *b = {minor}; *c = {release}; }}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", stub, source], check=True)
        return stub

    def test_another_ucx_is_refused_with_a_warning(self):
        for major, minor in ((1, 12), (1, 14), (1, 18), (2, 13)):
            text = self.info("-d", preload=(self.stub(major, minor), LIBRARY))
            self.assertNotIn("Transport: comch", text)
            self.assertNotIn("domain: comch", text)
            self.assertIn("Transport: tcp", text, "UCX itself must work on")
            self.assertRegex(text, rf"WARN +comch: .*built for UCX [0-9.]+ .*UCX {major}\.{minor}\.0")
            self.assertEqual(text.count("WARN"), 1)

    def test_another_release_of_the_same_version_is_accepted(self):
        text = self.info("-d", preload=(self.stub(1, 13, 99), LIBRARY))
        self.section(text)
        self.assertNotIn("WARN", text)

    def test_a_program_that_has_nothing_to_do_with_ucx_is_not_disturbed(self):
        result = self.run_program("/bin/echo", "hello")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "hello\n", ""))
        self.assertFalse((self.folder / "domain").exists(), "nothing is made before it is needed")

    def test_the_module_shows_nothing_of_its_inside(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True,
                                 text=True, check=True).stdout.split("\n")
        shown = [line for line in symbols if line and not re.search(r" (_init|_fini)$", line)]
        foreign = [line for line in shown if "comch" in line]
        self.assertEqual(foreign, [])


if __name__ == "__main__":
    sys.exit(unittest.main())
