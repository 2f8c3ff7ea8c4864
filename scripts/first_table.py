#!/usr/bin/env python3
"""A first table of comch beside UCX's own shared-memory transports, measured here and now.

Each round runs every row over both, one right after the other, on two pinned CPUs. The medians of
the rounds are shown, and the median of each round's ratio: machines move between faster and slower
phases, both runs of a pair mostly in the same one, so the ratio tells more than the times.

perftest/compare measures more, and longer.

usage: first_table.py [--rounds 5] [--build-dir build]
"""
import argparse
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True  # leave no cache folder beside the scripts
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "perftest"))
from comparison import ucx  # noqa: E402
from comparison.rows import KIB, MIB, Row, size_text  # noqa: E402
import perftest_pair  # noqa: E402

PEER = "posix+cma"
ROWS = (Row("ucp", "tag_lat", 8), Row("ucp", "tag_lat", KIB), Row("ucp", "tag_bw", 8),
        Row("ucp", "tag_bw", 64 * KIB), Row("ucp", "tag_bw", MIB))


def advantage(row, comch, peer):
    """Above 1: comch is ahead."""
    return peer / comch if row.is_latency else comch / peer


def measure_all(build_dir, rounds):
    results = {row: [] for row in ROWS}
    begin = time.monotonic()
    for number in range(1, rounds + 1):
        for row in ROWS:
            results[row].append(tuple(ucx.run(name, row, build_dir) for name in ("comch", PEER)))
        print(f"  round {number} of {rounds} measured, {time.monotonic() - begin:.0f} s",
              file=sys.stderr, flush=True)
    return results


def table(results):
    lines = [f"{'':8} {'':>7}  {'comch':>12}  {'posix+cma':>12}  {'comch/peer':>10}  {'of rounds':>13}"]
    for row, pairs in results.items():
        comch, peer = (statistics.median(values) for values in zip(*pairs))
        ratios = [advantage(row, *pair) for pair in pairs]
        lines.append(f"{row.test:8} {size_text(row.size):>7}  {comch:7.2f} {row.unit:<4}  "
                     f"{peer:7.2f} {row.unit:<4}  {statistics.median(ratios):9.2f}x  "
                     f"{min(ratios):5.2f} .. {max(ratios):.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build-dir", default=perftest_pair.ROOT / "build")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    perftest_pair.enter_private_network()
    if perftest_pair.two_cpus()[0] is None:
        print("note: there is one CPU only, so both processes share it: the figures say little",
              file=sys.stderr)
    try:
        results = measure_all(options.build_dir, options.rounds)
    except perftest_pair.PairError as error:
        sys.exit(f"error: {error}")
    print(table(results))
    print("""
comch/peer above 1.00x: comch is ahead (latency: less time; bandwidth: more of it).
Only the ratios mean anything. Machines, virtual ones above all, move their CPUs between near and
far placements every few seconds, and the times then change several-fold for both.""")


if __name__ == "__main__":
    main()
