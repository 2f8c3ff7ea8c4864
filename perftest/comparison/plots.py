"""Latency and bandwidth over size, all peers in one picture, for each placement.

What is drawn is what was measured beside each other: every peer's median, and comch's median over
all its pairs at that size.
"""
import statistics

from .rows import size_text

STYLES = {"comch": {"color": "black", "linewidth": 2, "marker": "o"}}


def draw(samples, where, directory):
    """Writes latency-<where>.svg and bandwidth-<where>.svg; the names of those that had data."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    written = []
    for name, is_latency, label in (("latency", True, "one way, µs"), ("bandwidth", False, "GB/s")):
        curves = collect(samples, where, is_latency)
        if not curves:
            continue
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        for peer, points in sorted(curves.items(), key=lambda item: item[0] != "comch"):
            sizes = sorted(points)
            axes.plot(sizes, [statistics.median(points[size]) for size in sizes],
                      label=peer, **STYLES.get(peer, {"marker": "."}))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = sorted({size for points in curves.values() for size in points})[::3]
        axes.set_xticks(ticks, [size_text(size) for size in ticks])
        axes.set_xlabel("message size")
        axes.set_ylabel(label)
        axes.set_title(f"UCP tag {name}, CPUs {where}")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
        path = directory / f"{name}-{where}.svg"
        # No time stamp and no random names: the same data make the same file.
        matplotlib.rcParams["svg.hashsalt"] = "comch"
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
        written.append(path)
    return written


def collect(samples, where, is_latency):
    """{peer: {size: [values]}}, comch among them."""
    curves = {}
    for (row, peer), pairs in samples.pairs.items():
        if row.is_latency != is_latency or row.level != "ucp" or peer in row.limits:
            continue
        if row.test not in ("tag_lat", "tag_bw") or row.memory == "own":
            continue  # as the titles say, and one thing in one curve
        for pair in pairs:
            if pair.placement != where:
                continue
            for name, value in (("comch", pair.comch), (peer, pair.peer)):
                if row.unit == "M/s":  # a rate of small messages, as bandwidth
                    value *= row.size / 1000
                curves.setdefault(name, {}).setdefault(row.size, []).append(value)
    return curves
