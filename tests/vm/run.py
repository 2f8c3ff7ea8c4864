#!/usr/bin/env python3
"""Runs the tests of tests.py, one after the other. Inside the virtual machine; scripts/vm-test.sh
does that. The last line is "N passed, N failed".
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from tests import TESTS


def last_line(log):
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 500))
    lines = log.read().decode(errors="replace").splitlines()
    return lines[-1][:90] if lines else ""


def wait(process, test, log):
    """What is wrong, None if nothing; shows meanwhile that it is alive."""
    end = time.monotonic() + test.timeout
    while time.monotonic() < end:
        try:
            code = process.wait(15)
            return None if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            print(f"        still at it: {last_line(log)}", flush=True)
    return f"not done after {test.timeout} s"


def run(test, log):
    """What is wrong, None if nothing."""
    # A process group of its own, so that nothing of it stays.
    with open(log.name, "ab") as output:
        process = subprocess.Popen(test.command, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=os.environ | test.environment,
                                   start_new_session=True)
    try:
        return wait(process, test, log)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def run_and_tell(test, number, count):
    where = f"[{number:>2}/{count}] {test.name}"
    print(f"{where} ...", flush=True)
    began = time.monotonic()
    with tempfile.NamedTemporaryFile() as log:
        problem = run(test, log)
        print(f"{where:<50} {'FAILED' if problem else 'ok':<7}{time.monotonic() - began:6.1f} s",
              flush=True)
        if problem:
            log.seek(0)
            text = log.read().decode(errors="replace")
            print(f"---- {test.name}: {problem}\n{text[-20000:]}\n----", flush=True)
    return problem


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regex", nargs="?", default="", help="only those whose name matches")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--short", action="store_true", help="leave out those that take minutes")
    options = parser.parse_args()
    tests = [test for test in TESTS
             if re.search(options.regex, test.name) and not (options.short and test.long)]
    if options.list:
        print(*[test.name for test in tests], sep="\n")
        return 0
    if not tests:
        sys.exit("error: no test has such a name; --list shows them")
    failed = sum(bool(run_and_tell(test, number, len(tests)))
                 for number, test in enumerate(tests, 1))
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
