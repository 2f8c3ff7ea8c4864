#!/usr/bin/env python3
"""scripts/apt_deb_src.py reads both styles of apt entries and keeps what decides about trust."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("COMCH_SOURCE_DIR", pathlib.Path(__file__).parent.parent))


class AptDebSrc(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.etc = pathlib.Path(self.folder.name)
        (self.etc / "sources.list.d").mkdir()

    def convert(self, *wanted):
        command = [sys.executable, str(ROOT / "scripts/apt_deb_src.py"), "--etc", str(self.etc)]
        command += [f"--from={entry}" for entry in wanted]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def stanzas(self, *wanted):
        result = self.convert(*wanted)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [set(stanza.splitlines()) for stanza in result.stdout.strip().split("\n\n")]

    def test_one_line_entry_with_options(self):
        (self.etc / "sources.list").write_text(
            "# a comment\n"
            "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian bookworm main contrib # why\n"
            "deb cdrom:[Debian GNU/Linux 12 _Bookworm_]/ bookworm main\n")
        self.assertEqual(self.stanzas(), [{
            "Types: deb-src", "URIs: http://mirror/debian", "Suites: bookworm",
            "Components: main contrib", "Signed-By: /k.gpg"}])

    def test_deb822_entry_with_an_inline_key_and_a_disabled_one(self):
        (self.etc / "sources.list.d/debian.sources").write_text(
            "Types: deb\n# a comment\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n"
            "Components: main\nArchitectures: amd64\nSigned-By:\n KEY LINE 1\n KEY LINE 2\n"
            "\n"
            "Types: deb\nEnabled: no\nURIs: http://other\nSuites: x\nComponents: main\n")
        self.assertEqual(self.stanzas(), [{
            "Types: deb-src", "URIs: http://mirror/debian", "Suites: bookworm bookworm-updates",
            "Components: main", "Signed-By: ", " KEY LINE 1", " KEY LINE 2"}])

    def test_only_the_wanted_suite_is_taken(self):
        (self.etc / "sources.list.d/a.list").write_text(
            "deb http://mirror/debian/ bookworm main\ndeb http://third.party/ stable main\n")
        self.assertEqual(self.stanzas("http://mirror/debian/bookworm"), [{
            "Types: deb-src", "URIs: http://mirror/debian/", "Suites: bookworm",
            "Components: main"}])

    def test_all_are_taken_if_the_wanted_one_is_not_there(self):
        (self.etc / "sources.list.d/a.list").write_text(
            "deb http://mirror/debian/ bookworm main\ndeb http://third.party/ stable main\n")
        self.assertEqual(len(self.stanzas("http://gone/debian/bookworm")), 2)

    def test_files_apt_ignores_are_ignored_and_none_is_an_error(self):
        (self.etc / "sources.list.d/a.list.disabled").write_text("deb http://mirror/ x main\n")
        result = self.convert()
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no package source is configured", result.stderr)


if __name__ == "__main__":
    unittest.main()
