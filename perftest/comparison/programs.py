"""Two programs that talk to each other, each on its CPU: the server's and the client's."""
import os
import re
import time

from .ucx import PairError, perftest_pair

TIMEOUT = 120  # seconds for one run; it takes a few


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
