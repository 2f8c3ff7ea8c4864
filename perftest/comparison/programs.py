"""What the programs say that measure: one by itself, or two that talk to each other, each on its CPU."""
import json
import os
import re
import subprocess
import time

from .ucx import PairError, perftest_pair

TIMEOUT = 120  # seconds for one run; it takes a few


def run_program(title, command, environment):
    """How it ended, and what it said."""
    try:
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PairError(f"{title}: {error}") from error


def figures_of(title, command, environment=None, may_crash=False):
    """What it says in JSON. `may_crash`: whatever its exit code is."""
    result = run_program(title, command, os.environ | (environment or {}))
    if result.returncode == 0 or may_crash:
        try:
            return json.loads(result.stdout)
        except ValueError:
            pass
    raise PairError(f"{title}: no result, exit code {result.returncode}\n{result.stdout}{result.stderr}")


def pair(title, result, server, client, port, environments):
    """The line of the client's output that the expression finds. `environments`: of server and
    client, beside the caller's own."""
    cpus = perftest_pair.two_cpus()
    deadline = time.monotonic() + TIMEOUT
    with perftest_pair.started(server, os.environ | environments[0], cpus[0]) as serving:
        while not perftest_pair.is_listening(port):
            if serving.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.005)
        with perftest_pair.started(client, os.environ | environments[1], cpus[1]) as asking:
            out = perftest_pair.finish(asking, deadline)
        server_out = perftest_pair.finish(serving, deadline if asking.returncode == 0
                                          else time.monotonic() + 2)
    # The result counts, not the exit code: libfabric 1.17's verbs provider may crash at the very end.
    found = re.search(result, out, re.MULTILINE)
    if not found:
        raise PairError(f"{title}: no result, exit code {asking.returncode}\n{out}{server_out}")
    return found[0]
