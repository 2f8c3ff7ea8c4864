#!/usr/bin/env python3
"""UCX's own tests over comch: those of UCT and UCP that are made for a list of transports.

usage: ucx_gtest.py --program GTEST --transport FILE [--only REGEX]
  --program GTEST    UCX's test program, made with comch among its transports
  --transport FILE  libuct_comch.so, made against the same UCX
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
CHOSEN = "comch*/*:all*/*:-*perf*"

KNOWN = {
    r"comch/test_md\.invalidate/\d+$": "wants all registrations of one range to be one",
    r"comch/test_uct_peer_failure\.peer_failure/\d+$":
        "wants a put of nothing to notice a peer that has ended in an orderly way",
    r"all/test_ucp_sockaddr_wireup_fail\.connect_and_fail_wireup_msg_pack_addr_on_server/\d+$":
        "fails now and then with UCX's own transports, too",
}


def cases(program, environment):
    """How many tests each test case has."""
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={CHOSEN}"], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    found, case = {}, None
    for line in listed.stdout.splitlines():
        if name := re.match(r"((?:comch|all)\w*/\w+)\.", line):
            case = name[1]
            found[case] = 0
        elif case and line.startswith("  "):
            found[case] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--transport", required=True)
    parser.add_argument("--only", type=re.compile, default="")
    options = parser.parse_args()
    for path in (options.program, options.transport):
        if not os.path.isfile(path):
            parser.error(f"'{path}' is no file")
    passed, skipped, failed = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="comch-ucx-") as domain:
        os.chmod(domain, 0o700)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("UCX_", "COMCH_", "GTEST_"))}
        environment |= {"LD_PRELOAD": os.path.realpath(options.transport), "UCX_TLS": "comch,tcp,self",
                        "COMCH_DOMAIN": domain}
        # A process for each: one that crashes takes no other with it.
        for case, count in sorted(cases(options.program, environment).items()):
            if not re.search(options.only, case):
                continue
            run = subprocess.run([options.program, f"--gtest_filter={case}.*:-*perf*"], env=environment,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            good = re.findall(r"\[ +OK \] (\S+)", run.stdout)
            bad = re.findall(r"\[ +FAILED +\] (\S+), where GetParam\(\) = .* \(\d+ ms\)", run.stdout)
            skips = len(re.findall(r"^\[ +SKIP \]", run.stdout, re.M))
            passed, skipped = passed + len(good) - skips, skipped + skips
            print(f"{case}: {len(good) - skips} passed, {skips} skipped, {len(bad)} not", flush=True)
            if len(good) + len(bad) != count:
                bad.append(f"{case}: {count - len(good) - len(bad)} of {count} tests did not come to their end, "
                           f"exit code {run.returncode}")
            if any(not why_known(name) for name in bad):
                print(run.stdout[-20000:], flush=True)
            failed += bad
    known = [name for name in failed if why_known(name)]
    for name in known:
        print(f"known: {name}: {why_known(name)}")
    unknown = [name for name in failed if name not in known]
    if passed + skipped + len(failed) == 0:
        unknown.append("no test case has such a name")
    for name in unknown:
        print(f"FAILED: {name}")
    print(f"{skipped} skipped")
    print(f"{passed} passed, {len(unknown)} failed")
    return 1 if unknown else 0


def why_known(name):
    return next((why for pattern, why in KNOWN.items() if re.match(pattern, name)), None)


if __name__ == "__main__":
    sys.exit(main())
