"""GoogleTest programs over the RDMA devices: their tests take the domain that COMCH_TEST_DOMAIN_FILE
describes.

Those that fork have a process each: RDMA contexts of the tests before would not survive it.
"""
import os
import subprocess

import over_rdma
from machine import BUILD


def environment():
    return os.environ | {"COMCH_TEST_DOMAIN_FILE": over_rdma.SETTINGS["COMCH_DOMAIN_FILE"]}


class Program:
    def __init__(self, name):
        self.path = BUILD / "bin" / name

    def names(self, gtest_filter):
        """Full names of the tests that the filter chooses."""
        text = subprocess.run([self.path, "--gtest_list_tests", f"--gtest_filter={gtest_filter}"],
                              env=environment(), capture_output=True, text=True, check=True).stdout
        suite, found = "", []
        for line in text.splitlines():
            word = line.split("#")[0].strip()
            if line.startswith(" "):
                found.append(suite + word)
            elif word.endswith("."):
                suite = word
        return found

    def run(self, chosen, forking="", without=""):
        """How many runs failed: of the tests that the patterns choose, and of each that forks."""
        for pattern in filter(None, ":".join((chosen, forking, without)).split(":")):
            if not self.names(pattern):
                raise AssertionError(f"{self.path} has no test '{pattern}'")
        left_out = ":".join(pattern for pattern in (forking, without) if pattern)
        choices = [f"{chosen}:-{left_out}"] if chosen else []
        if forking:
            choices += self.names(forking)
        return sum(subprocess.run([self.path, "--gtest_brief=1", f"--gtest_filter={choice}"],
                                  env=environment(), stdin=subprocess.DEVNULL,
                                  check=False).returncode != 0
                   for choice in choices)
