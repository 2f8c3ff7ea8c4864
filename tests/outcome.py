"""How a test ends that cannot be made here: CTest is to count it neither as passed nor as failed."""
import os
import sys
import unittest

SKIPPED = 77  # as tests/CMakeLists.txt tells CTest


def want_root(why):
    if os.geteuid() != 0:
        print(f"skipped: it takes root {why}", flush=True)
        sys.exit(SKIPPED)


def unittest_main():
    """unittest.main(), to which a test that was skipped is one that passed."""
    result = unittest.main(verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)
