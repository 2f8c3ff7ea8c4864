"""Where the two CPUs stand to each other while something is measured.

Virtual machines move their CPUs: for seconds a cache line takes 50 ns from one to the other, then for
seconds 250 ns, and every transport's figures move with it, each in its own way. So every run has a
probe of the hand-over before it and behind it, and counts only if both tell the same. On a machine whose
hand-over is about where near ends, probes differ a little without having moved.
"""
import statistics

from .programs import figures_of

NEAR_BELOW_NS = 100
SAME_WITHIN = 1.5  # the largest probe by the smallest
PLACEMENTS = ("near", "far", "emulated")


class Probe:
    def __init__(self, limits_program, cpus):
        self.command = [str(limits_program), "hand-over", "--json", "--seconds", "0.004",
                        "--cpus", ",".join(map(str, cpus))]
        self.last = None

    def __call__(self):
        """ns for a cache line, one way."""
        self.last = figures_of("the probe of the hand-over", self.command)[0]["value"]
        return self.last


class NoProbe:
    """For emulated CPUs: they stand nowhere."""
    last = None

    def __call__(self):
        return None


def name_of(probe):
    if probe is None:
        return "emulated"
    return "near" if probe < NEAR_BELOW_NS else "far"


def placement(probes):
    """One of PLACEMENTS, that of the mean, or None if the probes do not agree."""
    names = {name_of(probe) for probe in probes}
    if len(names) == 1:
        return names.pop()
    if max(probes) > SAME_WITHIN * min(probes):
        return None
    return name_of(statistics.mean(probes))
