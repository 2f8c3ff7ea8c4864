"""What is installed works where it was moved to, and so does a build that was copied: nothing in it leads
back to where it was made."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from outcome import unittest_main
from program import Program

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
EXAMPLE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"]) / "examples/core"

# A program written for DOCA.
DOCA = """
#include <stdio.h>
#include <doca_comch.h>
#include <doca_error.h>
int main(void) {
#ifdef DOCA_ARCH_DPU
    puts("for the DPU");
#endif
    puts(doca_error_get_name(DOCA_ERROR_NOT_FOUND));
    return doca_comch_server_destroy(NULL) == DOCA_SUCCESS;
}
"""


class Moved(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="comch-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.folder / "first"], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        (cls.folder / "first").rename(cls.folder / "moved")
        cls.prefix = cls.folder / "moved"
        # It is lib64 or lib/<architecture> where the system has it so.
        cls.lib = next(cls.prefix.rglob("libcomch_core.a")).parent
        cls.copied = cls.folder / "copied"
        for name in ("doca", "doca-dpu"):
            shutil.copytree(BUILD / name, cls.copied / name, symlinks=True)
        (cls.copied / "bin").mkdir()
        shutil.copy(BUILD / "bin/doca_cc_server", cls.copied / "bin")

    def environment(self, **settings):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("COMCH_", "UCX_", "FI_"))}
        return clean | {"COMCH_DOMAIN": str(self.folder / "domain")} | settings

    def run_program(self, *command, **settings):
        result = subprocess.run([str(word) for word in command], check=False,
                                env=self.environment(**settings),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}")
        return result.stdout

    def test_links_stay_inside(self):
        for root in (self.prefix, self.copied):
            for path in root.rglob("*"):
                if path.is_symlink():
                    self.assertFalse(os.readlink(path).startswith("/"), path)
                    self.assertTrue(path.resolve(strict=True).is_relative_to(root), path)

    def test_documents_find_each_other(self):
        documents = list((self.prefix / "share/doc").rglob("*.md"))
        self.assertGreater(len(documents), 8)
        for document in documents:
            for link in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
                if "://" not in link:
                    self.assertTrue((document.parent / link).exists(), f"{document}: {link}")

    def test_libraries_are_found_inside(self):
        for path in (*self.prefix.glob("bin/*"), *self.lib.rglob("*.so"), *self.copied.glob("bin/*")):
            text = self.run_program("ldd", path)
            self.assertNotIn("not found", text, path)
            self.assertNotIn(str(BUILD), text, path)

    def test_programs(self):
        self.assertIn("dpu0", self.run_program(self.prefix / "bin/comch_info"))
        self.assertIn("p50", self.run_program(self.prefix / "bin/comch_perftest", "-b", "-n", "10",
                                              "-f", "json"))
        self.assertIn("3.", self.run_program(self.copied / "bin/doca_cc_server", "--version"))

    def test_ucx(self):
        if not (BUILD / "lib/ucx").is_dir():
            self.skipTest("built without UCX")
        module = self.lib / "ucx/libuct_comch.so"
        self.assertIn("Transport: comch", self.run_program("ucx_info", "-d", LD_PRELOAD=str(module)))

    def test_libfabric(self):
        if not (BUILD / "lib/libfabric").is_dir():
            self.skipTest("built without libfabric")
        self.assertIn("provider: comch", self.run_program(
            "fi_info", "-p", "comch", FI_PROVIDER_PATH=str(self.lib / "libfabric")))

    def check_example(self, folder):
        with Program([str(folder / "comch_checksum_server")], self.environment()) as server:
            server.wait_for("Waiting for a client of")
            self.assertRegex(self.run_program(folder / "comch_checksum_client"),
                             r"^The DPU's sum of 1000000 bytes is \d+\n$")
            self.assertIn("The client has gone", server.finish())

    def test_a_program_on_the_core_by_cmake(self):
        project = self.folder / "by_cmake"
        self.run_program("cmake", "-S", EXAMPLE, "-B", project, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.run_program("cmake", "--build", project)
        self.check_example(project)

    def test_a_program_on_the_core_of_the_build(self):
        self.check_example(BUILD / "bin")

    def test_a_program_on_the_core_by_pkg_config(self):
        project = self.folder / "by_pkg_config"
        project.mkdir()
        flags = self.run_program("pkg-config", "--cflags", "--libs", "comch",
                                 PKG_CONFIG_PATH=str(self.lib / "pkgconfig")).split()
        for half in ("server", "client"):
            self.run_program("c++", "-std=c++20", EXAMPLE / f"checksum_{half}.cpp", "-o",
                             project / f"comch_checksum_{half}", *flags)
        self.check_example(project)

    def test_an_example_without_its_other_half_says_so(self):
        client = BUILD / "bin/comch_checksum_client"
        result = subprocess.run([str(client)], env=self.environment(), check=False, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no server named 'checksum' serves this function", result.stderr)

    def test_a_program_written_for_doca(self):
        source = self.folder / "doca.c"
        source.write_text(DOCA, encoding="utf-8")
        for faces in (self.lib / "comch", self.copied):
            for name, says in (("doca", ""), ("doca-dpu", "for the DPU\n")):
                lib = faces / name / "lib"
                flags = self.run_program("pkg-config", "--cflags", "--libs", "doca-comch",
                                         PKG_CONFIG_PATH=str(lib / "pkgconfig")).split()
                self.run_program("cc", "-DDOCA_ALLOW_EXPERIMENTAL_API", source, "-o",
                                 self.folder / name, *flags)
                self.assertEqual(self.run_program(self.folder / name, LD_LIBRARY_PATH=str(lib)),
                                 f"{says}DOCA_ERROR_NOT_FOUND\n")

    def test_nothing_of_text_names_where_it_was_made(self):
        for path in (*self.prefix.rglob("*.pc"), *self.prefix.rglob("*.cmake")):
            text = path.read_text(encoding="utf-8")
            for place in (BUILD, self.folder):
                self.assertNotIn(str(place), text, path)


if __name__ == "__main__":
    unittest_main()
