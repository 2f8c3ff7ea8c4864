"""Every ucx_perftest test that exists for what the transport declares runs between the two sides.

ucx_perftest does not check data (the transport's own tests do); here each must come to its end, on
both sides, without a line that complains. The tests of a group run in one pair of processes, from a
batch file that both read, so what one leaves behind the next would meet.
"""
import dataclasses
import itertools
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], "scripts"))
import perftest_pair  # noqa: E402

COMPLAINT = re.compile(r"^.*(?:\b(?:ERROR|WARN|FATAL|Assertion)\b|Caught signal).*$", re.MULTILINE)
TIMEOUT = 120  # of a group; it takes a few seconds
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Settings(perftest_pair.Transport):
    domain: str = ""

    def environment(self, side):
        env = super().environment(side)
        env["COMCH_DOMAIN"] = self.domain
        return env


def rounds(size):
    """How often: enough to fill every ring, and no more than that of large messages."""
    total = sum(int(part) for part in str(size).split(","))
    return f"-n {2000 if total < 2000 else 500 if total < 50000 else 50 if total < MIB else 8} " \
           f"-w {20 if total < MIB else 2}"


# Every line ends with an option that has a value: after one without, ucx_perftest's parser looks at
# the next line's text for more letters of the same word.
def uct_tests():
    sizes = {
        "short": ["8", "48", "56", "57", "248", "1024", "2048"],
        "shortiov": ["8", "8,16,100", "64,1,1,500", ",".join(["60"] * 16)],
        "bcopy": ["8", "100", "249", "1000", "8192", "32768"],
        "zcopy": ["8", "1000", "32768", "100,2000,50", ",".join(["2000"] * 16)],
    }
    for test, layout in itertools.product(("am_lat", "am_bw"), sizes):
        for size in sizes[layout]:
            yield f"-t {test} -D {layout} -s {size} {rounds(size)}"
    yield "-t am_bw -D zcopy -s 4000 -H 128 -n 500 -w 10"
    yield "-t am_bw -D short -s 8 -W 4 -n 2000 -w 10"
    for mode in ("thread_mutex", "signal"):
        yield f"-t am_lat -D short -s 8 -A {mode} -n 2000 -w 10"
    for test in ("put_lat", "put_bw", "get"):
        for layout, some in (("short", ["8", "1000", "32768"]), ("bcopy", ["8", "1000", "32768"]),
                             ("zcopy", ["8", "32768", str(MIB), str(16 * MIB + 1)])):
            if (layout, test) == ("short", "get"):
                continue  # ucx_perftest has no such test
            for size in some:
                yield f"-t {test} -D {layout} -s {size} {rounds(size)}"
    for test, size in itertools.product(("add_lat", "add_mr", "fadd", "swap", "cswap"), "48"):
        yield f"-t {test} -D short -s {size} -n 2000 -w 20"


TAG = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw")
TWO_SIDED = TAG + ("stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw")
ONE_SIDED = ("ucp_put_lat", "ucp_put_bw", "ucp_get")
ATOMIC = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")


# No test with several threads (-T): ucx_perftest hangs in such batches over UCX's own transports as
# well. ucp_threads_test.cpp has threads.
def ucp_tests():
    for test, mode in itertools.product(TWO_SIDED, ("", "-e")):
        for size in ("8", "1000", "9000", "40000", str(MIB)):
            yield f"-t {test} {mode} -s {size} {rounds(size)}"
    for test, mode in itertools.product(ONE_SIDED, ("", "-e")):
        for size in ("8", "1000", "40000", str(MIB)):
            yield f"-t {test} {mode} -s {size} {rounds(size)}"
    for test, mode, size in itertools.product(ATOMIC, ("", "-e"), "48"):
        yield f"-t {test} {mode} -s {size} -n 1000 -w 10"
    for test, size in itertools.product(TAG, ("8", "100000")):
        yield f"-t {test} -s {size} -C {rounds(size)}"
        yield f"-t {test} -s {size} -z {rounds(size)}"
    for test in ("tag_lat", "tag_bw"):
        for layout in ("iov,contig", "iov,iov", "contig,contig"):
            yield f"-t {test} -D {layout} -s 100,2000,50 -n 500 -w 10"
            yield f"-t {test} -D {layout} -s {','.join(['8192'] * 8)} -n 100 -w 10"
        yield f"-t {test} -U -s 8 -n 1000 -w 10"
    for test in ("stream_lat", "stream_bw"):
        yield f"-t {test} -r recv_data -s 3000 -n 1000 -w 10"
    for test in ("ucp_am_lat", "ucp_am_bw"):
        yield f"-t {test} -H 100 -s 3000 -n 1000 -w 10"
        yield f"-t {test} -H 100 -s 300000 -n 50 -w 10"
    # Asleep between messages.
    for test, size in itertools.product(("tag_lat", "tag_bw", "stream_lat", "ucp_am_bw"),
                                        ("8", "300000")):
        yield f"-t {test} -I -E sleep -s {size} -n 100 -w 5"


def ucp_memory_tests(heap):
    for test, size in itertools.product(("tag_lat", "tag_bw", "tag_sync_bw", "stream_bw",
                                         "ucp_am_bw"), ("8", "9000", str(4 * MIB))):
        yield f"-t {test} -s {size} {rounds(size)}"
        yield f"-t {test} -e -s {size} {rounds(size)}"
    for test in ONE_SIDED:
        if heap:
            # The responder of these tests progresses about once in a millisecond, and memory that
            # comch did not allocate takes its help: few rounds.
            for size in ("8", "100000", str(MIB)):
                yield f"-t {test} -s {size} -n 5 -w 1"
        else:
            for size in ("8", "9000", str(4 * MIB)):
                yield f"-t {test} -s {size} {rounds(size)}"
    for test in ATOMIC:
        if heap and test == "ucp_cswap":
            # Its end needs memory that holds what it held before, which the heap does not promise:
            # in a batch it hangs over UCX's own transports as well.
            continue
        yield f"-t {test} -s 8 -n {20 if heap else 1000} -w 1"


def groups():
    """(name, UCX_ALLOC_PRIO, tests, further options)"""
    # The device has one name on both sides.
    yield "UCT", "", uct_tests(), ["-x", "comch", "-d", "dpu0"]
    yield "UCP", "", ucp_tests(), []
    yield "UCP on heap memory", "heap", ucp_memory_tests(True), []
    yield "UCP on comch's memory", "md:comch", ucp_memory_tests(False), []
    yield "UCP on huge pages", "huge,thp,heap", ucp_memory_tests(True), []
    yield "UCP, 1 GiB", "", ["-t tag_bw -s 1073741824 -n 1 -w 1"], []


class GroupError(Exception):
    """What went wrong; the text holds both processes' last words."""


def attempt(settings, options, names):
    deadline = time.monotonic() + TIMEOUT
    cpus = dict(zip(("dpu", "host"), perftest_pair.two_cpus()))
    port = perftest_pair.free_port()
    processes = {}
    try:
        for side, where in (("dpu", []), ("host", ["127.0.0.1"])):
            processes[side] = perftest_pair.start(
                ["ucx_perftest", "-p", str(port), *options, "-f", "-v", *where],
                settings.environment(side), cpus[side])
            while side == "dpu" and not perftest_pair.is_listening(port):
                if processes[side].poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.002)
        said = {side: perftest_pair.finish(processes[side], deadline) for side in ("host", "dpu")}
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    text = "".join(f"-- {side}, exit code {processes[side].returncode}:\n{words[-2500:]}"
                   for side, words in said.items())
    done = set(re.findall(r"^([0-9]+), *[0-9]", said["host"], re.MULTILINE))
    missing = [name for name in names if name not in done]
    if missing:
        raise GroupError(f"{len(missing)} tests have no result, first '{names[missing[0]]}':\n{text}")
    if any(process.returncode != 0 for process in processes.values()):
        raise GroupError(text)
    complaints = [line for words in said.values() for line in COMPLAINT.findall(words)]
    if complaints:
        raise GroupError("complaints:\n" + "\n".join(complaints[:20]))


def run_group(library, directory, name, alloc, tests, options):
    names = {str(number): test for number, test in enumerate(tests)}
    batch = pathlib.Path(directory) / "batch"
    batch.write_text("".join(f"{number} {test}\n" for number, test in names.items()))
    domain = os.path.join(directory, "domain")
    settings = Settings("comch", library, alloc, domain=domain)
    start = time.monotonic()
    for attempts_left in (2, 1, 0):
        try:
            attempt(settings, ["-b", str(batch), *options], names)
            break
        except GroupError as error:
            # Another program may take the port between our choice and the server's bind.
            if "bind()" not in str(error) or not attempts_left:
                raise
    left = sorted(set(os.listdir(domain)) - {"domain.id", "domain.lock"})
    if left:
        raise GroupError(f"{left} left in the domain's directory")
    print(f"ok     {name}: {len(names)} tests in {time.monotonic() - start:.1f} s", flush=True)


def main():
    perftest_pair.enter_private_network()
    library = pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "lib/ucx/libuct_comch.so"
    failed = passed = 0
    with tempfile.TemporaryDirectory(prefix="comch-perftest-") as directory:
        for name, alloc, tests, options in groups():
            try:
                run_group(library, directory, name, alloc, tests, options)
                passed += 1
            except GroupError as error:
                failed += 1
                print(f"FAILED {name}: {error}", flush=True)
    print(f"{passed} groups passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
