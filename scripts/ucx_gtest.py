#!/usr/bin/env python3
"""UCX's own tests over comch: those of UCT and UCP that are made for a list of transports.

usage: ucx_gtest.py --program GTEST --library LIBRARY [--only REGEX]
  --program GTEST    UCX's test program, made with comch among its transports
  --library LIBRARY  libuct_comch.so, made against the same UCX
  --only REGEX       those test cases whose name ("comch/test_ucp_rma") has a match

Some tests listen on all addresses: run this in a network namespace of its own. The last line is
"N passed, N failed"; failures that are known count as neither, and a line each says why.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

# "all" lets UCX choose among comch and TCP. Tests of speed are left out: they compare with what some
# machine once reached.
CASES = "comch*/*:all*/*:-*perf*"

KNOWN = {
    r"comch/test_md\.invalidate/": "writes keys longer than 8 bytes over its own variables",
    r"comch/test_uct_peer_failure\.peer_failure/":
        "wants a put of nothing to notice a peer that has ended in an orderly way",
    r"all/test_ucp_sockaddr_wireup_fail\.connect_and_fail_wireup_msg_pack_addr_on_server/":
        "fails now and then with UCX's own transports, too",
}


def cases(program, environment):
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={CASES}"], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return sorted(set(re.findall(r"^((?:comch|all)\w*/\w+)\.", listed.stdout, re.M)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--only", type=re.compile, default="")
    options = parser.parse_args()
    for path in (options.program, options.library):
        if not os.path.isfile(path):
            parser.error(f"'{path}' is no file")
    passed, skipped, failed = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="comch-ucx-") as domain:
        os.chmod(domain, 0o700)
        environment = {**os.environ, "LD_PRELOAD": os.path.realpath(options.library), "UCX_TLS": "comch,tcp,self",
                       "COMCH_DOMAIN": domain}
        # A process for each: one that crashes takes no other with it.
        for case in (case for case in cases(options.program, environment) if re.search(options.only, case)):
            run = subprocess.run([options.program, f"--gtest_filter={case}.*:-*perf*"], env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            began = re.findall(r"^\[ RUN +\] (\S+)", run.stdout, re.M)
            good = re.findall(r"\[ +OK \] (\S+)", run.stdout)
            bad = [name for name in began if name not in set(good)]
            skips = len(re.findall(r"^\[ +SKIP \]", run.stdout, re.M))
            passed, skipped = passed + len(good) - skips, skipped + skips
            print(f"{case}: {len(good) - skips} passed, {skips} skipped, {len(bad)} not", flush=True)
            # (Who crashed has left out what comes behind it, also if it is known to fail.)
            if not began or run.returncode < 0 or (run.returncode != 0 and not bad):
                bad.append(f"{case}: exit code {run.returncode}")
            if any(not why_known(name) for name in bad):
                print(run.stdout[-20000:], flush=True)
            failed += bad
    known = [name for name in failed if why_known(name)]
    for name in known:
        print(f"known: {name}: {why_known(name)}")
    unknown = [name for name in failed if name not in known]
    for name in unknown:
        print(f"FAILED: {name}")
    print(f"{skipped} skipped")
    if passed == 0:
        unknown.append("no test has run")
    print(f"{passed} passed, {len(unknown)} failed")
    return 1 if unknown else 0


def why_known(name):
    return next((why for pattern, why in KNOWN.items() if re.match(pattern, name)), None)


if __name__ == "__main__":
    sys.exit(main())
