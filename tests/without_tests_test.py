"""A build for packaging, without tests: it needs no GoogleTest, has nothing to test, and nothing of the link
that only tests use."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
CHANNEL = "core/CMakeFiles/comch_core.dir/channel"


def output_of(*command):
    result = subprocess.run([str(word) for word in command], check=False, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout}")
    return result.stdout


class WithoutTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="comch-without-tests-")
        cls.addClassCleanup(folder.cleanup)
        cls.build = pathlib.Path(folder.name)
        output_of("cmake", "-S", SOURCE, "-B", cls.build, "-G", "Ninja", "-DCOMCH_WITH_TESTS=OFF",
                  "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON", "-DCOMCH_WITH_UCX=OFF",
                  "-DCMAKE_BUILD_TYPE=Debug")

    def test_there_is_nothing_to_test(self):
        self.assertIn("Total Tests: 0", output_of("ctest", "--test-dir", self.build, "-N"))
        targets = output_of("ninja", "-C", self.build, "-t", "targets", "all")
        self.assertIn("bin/comch_perftest:", targets)
        self.assertNotIn("_test.cpp", targets)
        self.assertNotIn("rdma_tests", targets)
        self.assertNotIn("link/fake/", targets)

    def test_the_core_knows_no_fake_link(self):
        objects = [f"{CHANNEL}/{name}.cpp.o" for name in ("client", "connection")]
        output_of("ninja", "-C", self.build, *objects)
        for name in objects:
            symbols = output_of("nm", "-C", self.build / name)
            self.assertIn("link::soft::", symbols)
            self.assertNotIn("link::fake::", symbols)


if __name__ == "__main__":
    unittest.main(verbosity=2)
