"""Interleaved measuring: probe, one transport, probe, the other, probe.

Two runs make a pair only if all three probes name the same placement.
"""
import collections
import dataclasses
import statistics

from .placement import placement
from .ucx import PairError


@dataclasses.dataclass
class Pair:
    comch: float
    peer: float
    placement: str


class Samples:
    """All that was measured, by (row, peer): pairs, and how many do not count."""

    def __init__(self):
        self.pairs = {}
        self.thrown_away = collections.Counter()  # the placement changed meanwhile
        self.failed = collections.Counter()       # there is no result
        self.ended = "time was up"                # why there is no more

    def take(self, row, peer, probe, run, peer_first):
        names = (peer, "comch") if peer_first else ("comch", peer)
        probes = [probe()]
        values = {}
        for name in names:
            values[name] = run(name, row)
            if values[name] <= 0:
                raise PairError(f"{name} told {values[name]} {row.unit}")
            probes.append(probe())
        where = placement(probes)
        if where is None:
            self.thrown_away[row, peer] += 1
            return
        self.pairs.setdefault((row, peer), []).append(Pair(values["comch"], values[peer], where))

    def why_none(self, row, peer):
        """In words; None if a pair was kept."""
        if self.pairs.get((row, peer)):
            return None
        thrown_away, failed = self.thrown_away[row, peer], self.failed[row, peer]
        if thrown_away:
            return f"too noisy: 0 of {thrown_away + failed} pairs kept"
        return f"failed: 0 of {failed} pairs came to an end" if failed else f"not measured: {self.ended}"

    def of(self, row, peer, where):
        return [pair for pair in self.pairs.get((row, peer), []) if pair.placement == where]


@dataclasses.dataclass
class Verdict:
    """A row against one peer in one placement."""
    row: object
    peer: str
    placement: str
    comch: float
    peer_value: float
    ratio: float
    low: float   # quartiles of the ratio
    high: float
    pairs: int

    @property
    def target(self):
        return self.row.target_against(self.peer, self.placement)

    @property
    def reached(self):
        return self.row.reached(self.target, self.ratio)

    @property
    def conclusive(self):
        """Both quartiles are on the same side of the target."""
        return self.pairs >= 3 and (self.row.reached(self.target, self.low) ==
                                    self.row.reached(self.target, self.high))

    @property
    def words(self):
        """None without a target."""
        if self.target is None:
            return None
        return ("reached" if self.reached else "MISSED") if self.conclusive else "too noisy to say"


def judge(samples, row, peer, where):
    """None if nothing was measured there."""
    pairs = samples.of(row, peer, where)
    if not pairs:
        return None
    ratios = sorted(pair.comch / pair.peer for pair in pairs)
    low, _, high = (statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1
                    else ratios * 3)
    return Verdict(row, peer, where, statistics.median(pair.comch for pair in pairs),
                   statistics.median(pair.peer for pair in pairs), statistics.median(ratios),
                   low, high, len(pairs))


def best_peer(samples, row, peers, where):
    """The verdict against the peer that comes out best; None if nothing was measured there."""
    verdicts = [v for v in (judge(samples, row, peer, where) for peer in peers) if v]
    if not verdicts:
        return None
    worst_for_us = max if row.is_latency else min
    return worst_for_us(verdicts, key=lambda verdict: verdict.ratio)
