#!/usr/bin/env python3
"""A first table of comch beside UCX's own shared-memory transports, measured here and now.

Each round runs every row over both, one right after the other, on two pinned CPUs. The medians of
the rounds are shown, and the median of each round's ratio: machines move between faster and slower
phases, both runs of a pair mostly in the same one, so the ratio tells more than the times.

usage: first_table.py [--rounds 5] [--build-dir build] [--json FILE]
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True  # leave no cache folder beside the scripts
import perftest_pair
from perftest_pair import PairError, Transport, run_pair

PEER = Transport("posix,cma,self")


@dataclasses.dataclass(frozen=True)
class Row:
    test: str
    size: int
    size_text: str
    iterations: int  # for about a quarter of a second
    column: str      # of ucx_perftest's CSV output
    scale: float     # from the column's unit to ours
    unit: str

    @property
    def less_is_better(self):
        return self.test.endswith("_lat")


# ucx_perftest's MB are 2**20 bytes. A latency is its median, which one interruption does not move.
ROWS = (
    Row("tag_lat", 8, "8 B", 500_000, "50.0_percentile_lat", 1.0, "µs"),
    Row("tag_lat", 1024, "1 KiB", 300_000, "50.0_percentile_lat", 1.0, "µs"),
    Row("tag_bw", 8, "8 B", 3_000_000, "overall_mr", 1e-6, "M/s"),
    Row("tag_bw", 64 * 1024, "64 KiB", 50_000, "overall_bw", 2**20 / 1e9, "GB/s"),
    Row("tag_bw", 1024 * 1024, "1 MiB", 4_000, "overall_bw", 2**20 / 1e9, "GB/s"),
)


def measure(transport, row):
    output = run_pair(transport, ["-t", row.test, "-s", str(row.size), "-n", str(row.iterations),
                                  "-w", str(row.iterations // 10), "-v", "-f"])
    lines = [line for line in output.splitlines() if line.count(",") >= 6]
    for names, values in zip(lines, lines[1:]):
        if names.startswith("iterations,"):
            value = float(dict(zip(names.split(","), values.split(",")))[row.column]) * row.scale
            if value > 0:
                return value
    raise PairError(f"ucx_perftest printed no result for {row.test} {row.size_text}:\n{output}")


def advantage(row, comch, peer):
    """Above 1: comch is ahead."""
    return peer / comch if row.less_is_better else comch / peer


def measure_all(comch, rounds):
    results = {row: [] for row in ROWS}
    begin = time.monotonic()
    for number in range(1, rounds + 1):
        for row in ROWS:
            results[row].append((measure(comch, row), measure(PEER, row)))
        print(f"  round {number} of {rounds} measured, {time.monotonic() - begin:.0f} s",
              file=sys.stderr, flush=True)
    return results


def table(results):
    lines = [f"{'':8} {'':>7}  {'comch':>12}  {'posix+cma':>12}  {'comch/peer':>10}  {'of rounds':>13}"]
    for row, pairs in results.items():
        comch, peer = (statistics.median(values) for values in zip(*pairs))
        ratios = [advantage(row, *pair) for pair in pairs]
        lines.append(f"{row.test:8} {row.size_text:>7}  {comch:7.2f} {row.unit:<4}  "
                     f"{peer:7.2f} {row.unit:<4}  {statistics.median(ratios):9.2f}x  "
                     f"{min(ratios):5.2f} .. {max(ratios):.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build-dir", default=perftest_pair.ROOT / "build")
    parser.add_argument("--json", type=pathlib.Path, help="also write every single figure there")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    perftest_pair.enter_private_network()
    if perftest_pair.two_cpus()[0] is None:
        print("note: there is one CPU only, so both processes share it: the figures say little",
              file=sys.stderr)
    try:
        results = measure_all(perftest_pair.comch_transport(options.build_dir), options.rounds)
    except PairError as error:
        sys.exit(f"error: {error}")
    print(table(results))
    print("""
comch/peer above 1.00x: comch is ahead (latency: less time; bandwidth: more of it).
Only the ratios mean anything. Machines, virtual ones above all, move their CPUs between near and
far placements every few seconds, and the times then change several-fold for both.""")
    if options.json:
        options.json.write_text(json.dumps(
            [{"test": row.test, "bytes": row.size, "unit": row.unit, "comch": [p[0] for p in pairs],
              "posix+cma": [p[1] for p in pairs]} for row, pairs in results.items()], indent=2))


if __name__ == "__main__":
    main()
