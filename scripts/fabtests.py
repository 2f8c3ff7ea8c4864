#!/usr/bin/env python3
"""libfabric's own test programs (fabtests) over comch: two processes each, as their users start them.

usage: fabtests.py --programs DIR [--only REGEX]
  --programs DIR  where the programs are installed (their bin folder)
  --only REGEX    those whose command line has a match

libfabric must be found, and FI_PROVIDER_PATH set. Some programs' two ends talk over TCP beside what
they test, and listen on all addresses: so run this in a network namespace of its own. The last line
is "N passed, N failed".
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds; far more than anything takes
PATIENCE_OF_UBERTEST = 1800

# What comch does not offer is left out: datagrams, triggered operations, scalable endpoints, shared
# transmit contexts, address vectors that processes share, the prefix mode, socket addresses of
# datagram endpoints (fi_av_test), memory of accelerators (fi_setopt_test); fi_mr_cache_evict, which
# wants the provider to choose keys; fi_rdm_multi_domain, which enables endpoints that may receive
# without a queue for it; and what takes more than two processes or a plan of its own (fi_multinode,
# fi_rdm_stress).
KINDS = ("rdm", "msg")
ONE_PROCESS = ["fi_getinfo_test -s 127.0.0.1 127.0.0.1", "fi_dom_test -n 2", "fi_eq_test", "fi_cq_test",
               "fi_mr_test", "fi_cntr_test", "fi_loopback", "sighandler_test"]
PAIRS = ["fi_av_xfer -e rdm", "fi_cm_data", "fi_rdm", "fi_rdm -U", "fi_msg", "fi_msg_epoll",
         "fi_msg_sockets -s 127.0.0.1", "fi_rdm_rma_event", "fi_rdm_tagged_peek", "fi_recv_cancel -e rdm -V",
         "fi_resmgmt_test", "fi_unmap_mem",
         "fi_rdm_multi_client -C 10 -I 5", "fi_rdm_multi_client -C 10 -I 5 -U",
         *(f"fi_cq_data -e {kind} -o {how}" for kind in KINDS for how in ("senddata", "writedata")),
         *(f"fi_shared_ctx -e {kind} --no-tx-shared-ctx -s 127.0.0.1" for kind in KINDS),
         *(f"fi_multi_mr -e {kind} -V" for kind in KINDS),
         *(f"fi_multi_ep -e {kind} -v {shared}" for kind in KINDS for shared in ("", "-A", "-Q", "-A -Q")),
         *(f"fi_unexpected_msg -e {kind} -I 10 -v" for kind in KINDS),
         *(f"fi_multi_recv -e {kind} -I 5" for kind in KINDS),
         *(f"fi_flood -e {kind} -v -T 1" for kind in KINDS),
         *(f"fi_inject_test {name} -A {how} -v" for name in ("", "-N") for how in ("inject", "inj_complete")),
         *(f"fi_rma_bw -e {kind} -o {how} -I 5" for kind in KINDS for how in ("write", "read", "writedata")),
         *(f"fi_rdm_atomic -I 5 -o all {more}" for more in ("", "-U", "-v", "-U -v")),
         "fi_rdm_cntr_pingpong -I 5", "fi_msg_pingpong -I 5 -v", "fi_msg_bw -I 5 -v",
         *(f"{name} -I 5 -v {more}" for more in ("", "-U")
           for name in ("fi_rdm_pingpong", "fi_rdm_tagged_pingpong", "fi_rdm_bw", "fi_rdm_tagged_bw"))]

# For fi_ubertest: every way of calling.
SENDS = ("SEND", "SENDV", "SENDMSG", "INJECT", "SENDDATA", "INJECTDATA")
WRITES = ("WRITE", "WRITEV", "WRITEMSG", "INJECT_WRITE", "WRITEDATA", "INJECT_WRITEDATA", "READ", "READV",
          "READMSG")
ATOMICS = ("ATOMIC", "ATOMICV", "ATOMICMSG", "INJECT_ATOMIC", "FETCH_ATOMIC", "FETCH_ATOMICV", "FETCH_ATOMICMSG",
           "COMPARE_ATOMIC", "COMPARE_ATOMICV", "COMPARE_ATOMICMSG")
OPERATIONS = ("MIN", "MAX", "SUM", "PROD", "LOR", "LAND", "BOR", "BAND", "LXOR", "BXOR", "ATOMIC_WRITE")
COMPARES = ("CSWAP", "CSWAP_NE", "CSWAP_LE", "CSWAP_LT", "CSWAP_GE", "CSWAP_GT", "MSWAP")
TYPES = ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT", "DOUBLE")


def ubertest_plan():
    def words(prefix, names):
        return "[" + "".join(f"{prefix}{name}," for name in names) + "]"

    def part(kind, classes, functions, tests, completions=("QUEUE", "CNTR"), more=""):
        return (f"{{prov_name: comch, test_type: {words('FT_TEST_', tests)}, class_function: "
                f"{words('FT_FUNC_', functions)}, ep_type: [FI_EP_{kind},], test_class: "
                f"{words('FT_CAP_', classes)}, comp_type: {words('FT_COMP_', completions)}, {more}"
                "test_flags: FT_FLAG_QUICKTEST}")

    times = ("LATENCY", "BANDWIDTH", "UNIT")
    return ",\n".join([
        part("RDM", ("MSG", "TAGGED"), SENDS, times),
        part("RDM", ("RMA",), WRITES, times),
        part("MSG", ("MSG", "TAGGED"), SENDS, times),
        part("MSG", ("RMA",), WRITES, times),
        part("RDM", ("ATOMIC",), ATOMICS[:7], ("UNIT",), ("QUEUE",),
             f"op: {words('FI_', OPERATIONS)}, datatype: {words('FI_', TYPES)}, "),
        part("RDM", ("ATOMIC",), ATOMICS[7:], ("UNIT",), ("QUEUE",),
             f"op: {words('FI_', COMPARES)}, datatype: {words('FI_', TYPES)}, "),
    ]) + "\n"


class Failed(Exception):
    pass


class Process:
    """What it says goes to a file: nobody reads a pipe while its other end is waited for."""

    def __init__(self, command, environment):
        self.command = command
        self.output = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=self.output,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing of it is left."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.output.close()

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def code(self):
        """None: it still runs."""
        return self.process.poll()

    def told(self, what):
        return f"{' '.join(self.command)} {what}; it said:\n{self.text()}"


def wait_until(is_so, processes, patience, what):
    """Fails if one of the processes does first."""
    deadline = time.monotonic() + patience
    while not is_so():
        broken = any(process.code() not in (None, 0) for process in processes)
        if broken or time.monotonic() > deadline:
            raise Failed("\n".join(process.told(f"ended with {process.code()}" if process.code() is not None
                                                else f"still ran when {what} was waited for")
                                   for process in processes))
        time.sleep(0.01)


def ended(*processes):
    return lambda: all(process.code() == 0 for process in processes)


def run_pair(server, client, environment, listens, patience=PATIENCE):
    """What the client said."""
    with Process(server, environment) as first:
        wait_until(listens, [first], patience, "its listening")
        with Process(client, environment) as second:
            wait_until(ended(first, second), [first, second], patience, "its end")
            return second.text()


def check_ubertest(text):
    """Its exit code does not say much."""
    loaded = re.search(r"configurations loaded: (\d+)", text)
    success = re.search(r"^Success: (\d+)", text, re.M)
    if not loaded or not success or loaded[1] != success[1] or int(success[1]) == 0 or "UNVERIFIED" in text:
        raise Failed("fi_ubertest did not succeed in all that it loaded; it ended with:\n" + text[-2000:])


def listens_on_tcp():
    """Somebody in this network namespace, which is ours."""
    return any(line.split()[3] == "0A" for name in ("tcp", "tcp6")
               for line in pathlib.Path(f"/proc/self/net/{name}").read_text().splitlines()[1:])


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--only", default=re.compile(""), type=re.compile)
    options = parser.parse_args()

    def program(line):
        name, *arguments = line.split()
        return [str(options.programs / name), "-p", "comch", *arguments]

    def run(line):
        with tempfile.TemporaryDirectory(prefix="comch-fabtests-", dir="/dev/shm") as domain:
            environment = {**os.environ, "COMCH_DOMAIN": domain}
            if line in ONE_PROCESS:
                with Process(program(line), environment) as process:
                    wait_until(ended(process), [process], PATIENCE, "its end")
            elif line == "fi_ubertest":
                with tempfile.NamedTemporaryFile("w", prefix="comch-fabtests-") as plan:
                    plan.write(ubertest_plan())
                    plan.flush()
                    name = str(options.programs / line)
                    check_ubertest(run_pair([name, "-x"], [name, "-u", plan.name, "127.0.0.1"], environment,
                                            listens_on_tcp, PATIENCE_OF_UBERTEST))
            else: # by its name in the domain, or first over TCP
                run_pair(program(line), program(line) + ["127.0.0.1"], environment,
                         lambda: any(pathlib.Path(domain).glob("name.*")) or listens_on_tcp())

    # Where a shell has started this in the background, it is ignored, also by programs that want it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) # and leaves nothing behind
    counts = {True: 0, False: 0}
    for line in [*ONE_PROCESS, *PAIRS, "fi_ubertest"]:
        if not options.only.search(line):
            continue
        begin = time.monotonic()
        try:
            run(line)
            what = ""
        except Failed as failure:
            what = str(failure)
        counts[not what] += 1
        print(f"{'FAILED' if what else 'ok':6} {line:50} {time.monotonic() - begin:6.1f} s", flush=True)
        if what:
            print(what, flush=True)
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 0 if counts[True] != 0 and counts[False] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
