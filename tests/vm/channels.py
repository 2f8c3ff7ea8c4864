"""The channel layer's tests over the RDMA devices: those of them that take the link which the domain's
description says, not the fake one.

Those that fork have a process each: RDMA contexts of the tests before would not survive it.
"""
import os
import subprocess
import sys

import over_rdma
from machine import BUILD

PROGRAM = BUILD / "bin/comch_channel_test"
ENVIRONMENT = os.environ | {"COMCH_TEST_DOMAIN_FILE": over_rdma.SETTINGS["COMCH_DOMAIN_FILE"]}


def names(gtest_filter):
    """Full names of the tests that the filter chooses."""
    text = subprocess.run([PROGRAM, "--gtest_list_tests", f"--gtest_filter={gtest_filter}"],
                          env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    suite, found = "", []
    for line in text.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith(" "):
            found.append(suite + word)
        elif word.endswith("."):
            suite = word
    return found


def main():
    forking = names("*Death.*")
    if not forking:
        sys.exit("FAILED: there are no tests of deaths")
    failed = 0
    for choice in ["*/Soft*:-*Death.*", *forking]:
        failed |= subprocess.run([PROGRAM, f"--gtest_filter={choice}"], env=ENVIRONMENT,
                                 stdin=subprocess.DEVNULL, check=False).returncode
    sys.exit(failed)


if __name__ == "__main__":
    witness = over_rdma.Witness()
    try:
        main()
    finally:
        witness.assert_used(1000)
