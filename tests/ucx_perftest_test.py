"""Every ucx_perftest test that exists for what the transport declares runs between the two sides.

ucx_perftest does not check data (the transport's own tests do); here it must come to its end, on both
sides, without a line that says ERROR or WARN.
"""
import dataclasses
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], "scripts"))
import perftest_pair  # noqa: E402

COMPLAINT = re.compile(r"\b(ERROR|WARN|FATAL|Assertion)\b")


@dataclasses.dataclass(frozen=True)
class Settings(perftest_pair.Transport):
    domain: str = ""
    alloc: str = ""

    def environment(self, side):
        env = super().environment(side)
        env["COMCH_DOMAIN"] = self.domain
        if self.alloc:
            env["UCX_ALLOC_PRIO"] = self.alloc
        return env


def uct_tests():
    """(arguments) of the UCT level; the device has one name on both sides."""
    where = ["-x", "comch", "-d", "dpu0"]
    for layout, sizes in (("short", ("8", "1000")), ("shortiov", ("8,16,100",)),
                          ("bcopy", ("8", "1000", "32000")), ("zcopy", ("8", "1000", "32000")),
                          ("zcopy", ("100,2000,50",))):
        for test in ("am_lat", "am_bw"):
            for size in sizes:
                yield ["-t", test, "-D", layout, "-s", size, "-n", "2000", "-w", "50", *where]
    for layout in ("short", "bcopy", "zcopy"):
        for test in ("put_lat", "put_bw", "get"):
            if (layout, test) == ("short", "get"):
                continue  # ucx_perftest has no such test
            for size in ("8", "30000"):
                yield ["-t", test, "-D", layout, "-s", size, "-n", "2000", "-w", "50", *where]
    for test in ("add_lat", "add_mr", "fadd", "swap", "cswap"):
        for size in ("4", "8"):
            yield ["-t", test, "-s", size, "-n", "2000", "-w", "50", *where]


def ucp_tests():
    """(arguments, allocation) of the UCP level."""
    two_sided = ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "stream_lat", "stream_bw",
                 "ucp_am_lat", "ucp_am_bw")
    for test in two_sided:
        for size, count in (("8", "2000"), ("5000", "500"), ("300000", "50")):
            yield ["-t", test, "-s", size, "-n", count, "-w", "10"], ""
    for test in ("ucp_put_lat", "ucp_put_bw", "ucp_get"):
        for size, count in (("8", "1000"), ("300000", "50")):
            yield ["-t", test, "-s", size, "-n", count, "-w", "10"], "md:comch"
        # The responder of these tests progresses about once in a millisecond, and memory that comch
        # did not allocate takes its help: few rounds.
        yield ["-t", test, "-s", "100000", "-n", "10", "-w", "1"], "heap"
    for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"):
        for size in ("4", "8"):
            yield ["-t", test, "-s", size, "-n", "1000", "-w", "10"], ""
    for test in ("tag_lat", "tag_bw"):
        for alloc in ("heap", "md:comch", "thp,heap"):
            for size, count in (("8", "2000"), ("2000000", "20")):
                yield ["-t", test, "-s", size, "-n", count, "-w", "5"], alloc
        # With error handling, and with two threads.
        for size, count in (("8", "2000"), ("300000", "50")):
            yield ["-t", test, "-s", size, "-n", count, "-w", "5", "-e"], ""
            yield ["-t", test, "-s", size, "-n", count, "-w", "5", "-T", "2"], ""
    yield ["-t", "tag_bw", "-s", "1073741824", "-n", "2", "-w", "1"], ""
    yield ["-t", "tag_lat", "-s", "100,2000,50", "-n", "500", "-w", "5", "-D", "iov,iov"], ""


def main():
    perftest_pair.enter_private_network()
    library = pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "lib/ucx/libuct_comch.so"
    failed = passed = 0
    with tempfile.TemporaryDirectory(prefix="comch-perftest-") as directory:
        domain = os.path.join(directory, "domain")
        cases = [(arguments, "") for arguments in uct_tests()] + list(ucp_tests())
        for arguments, alloc in cases:
            settings = Settings("comch", library, domain=domain, alloc=alloc)
            name = " ".join(arguments) + (f" (UCX_ALLOC_PRIO={alloc})" if alloc else "")
            try:
                output = perftest_pair.run_pair(settings, arguments, timeout=120)
                complaint = COMPLAINT.search(output)
                problem = f"complains:\n{output[-2000:]}" if complaint else ""
            except perftest_pair.PairError as error:
                problem = str(error)[-3000:]
            if problem:
                failed += 1
                print(f"FAILED {name}\n{problem}")
            else:
                passed += 1
                print(f"ok     {name}", flush=True)
        left = sorted(set(os.listdir(domain)) - {"domain.id", "domain.lock"})
        if left:
            failed += 1
            print(f"FAILED: {left} left in the domain's directory")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
