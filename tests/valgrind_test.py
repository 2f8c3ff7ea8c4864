"""Programs over comch run under valgrind, where users look for their own errors, and it finds none of ours."""
import os
import pathlib
import tempfile
import unittest

from outcome import unittest_main
from program import Program

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--trace-children=yes"]


class UnderValgrind(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="comch-valgrind-")
        self.addCleanup(folder.cleanup)
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("COMCH_", "UCX_", "FI_"))}
        self.environment = clean | {"COMCH_DOMAIN": folder.name,
                                    "FI_PROVIDER_PATH": str(BUILD / "lib/libfabric")}

    def start(self, *command):
        program = Program([*VALGRIND, *command], self.environment)
        self.enterContext(program)
        return program

    def test_the_core(self):
        for mode in ("ping-pong", "one-way"):
            text = self.start(BUILD / "bin/comch_perftest", "--both-sides", "--verify", "-m", mode,
                              "-s", "8,3000,100000", "-n", "50").finish()
            self.assertIn("100000", text)

    def test_libfabric(self):
        if not (BUILD / "lib/libfabric").is_dir():
            self.skipTest("built without libfabric")
        for test in ("lat", "write", "read"):
            text = self.start(BUILD / "bin/comch_fi_perftest", test, "--size", "64", "--size", "100000",
                              "--seconds", "0.1").finish()
            self.assertIn("100000", text)

    def test_programs_for_doca(self):
        server = self.start(BUILD / "bin/doca_comch_data_path_high_speed_server", "-p", "03:00.0",
                            "-r", "3b:00.0")
        server.wait_for("Waiting for a client of")
        text = self.start(BUILD / "bin/doca_comch_data_path_high_speed_client", "-p", "3b:00.0").finish()
        self.assertIn("Message from the server", text)
        self.assertIn("Message from the client", server.finish())


if __name__ == "__main__":
    unittest_main()
