"""What is measured: one row for every figure, with the ratio that it should reach.

A ratio is comch's figure by the peer's: below 1 is good for a latency, above 1 for a bandwidth or
rate. Targets are (near, far); see placement.py.
"""
import dataclasses

KIB = 1 << 10
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Row:
    level: str            # "uct", "ucp": ucx_perftest; "fi": libfabric; "mpi", "fi-mpi", "core",
                          # "doca", "scaling": programs of our own; "start": ucx_info, from
                          # begin to end
    test: str             # ucx_perftest's name of it; of ours: mpi_lat, mpi_used_lat, mpi_bw,
                          # mpi_alltoall, core_lat, core_bw, doca_lat, doca_bw; of libfabric: tag_lat,
                          # tag_used_lat, tag_bw, and with fi_pingpong pingpong_lat, pingpong_bw.
                          # "used": each message is written before it is sent, and read
    size: int             # bytes; 0 of what has none
    layout: str = ""      # of UCT: short, bcopy, zcopy
    memory: str = ""      # where buffers come from: "" as ucx_perftest chooses, "heap", or "own":
                          # comch's from comch, the peers' from the heap, as a user has them
    target: tuple = (None, None)
    limits: tuple = ()    # what the machine can do at best: measurements of comch_limits, or what
                          # raw verbs do
    limit_target: tuple = (None, None)

    ranks: int = 2        # of an MPI job
    link: str = "soft"    # what carries it: "soft" or "verbs"
    latency: str = "mean" # which of all messages' latencies is asked for, "mean" or "median"; what is
                          # told says the runner's tells()

    @property
    def is_latency(self):
        return self.test.endswith(("_lat", "alltoall"))

    @property
    def unit(self):
        return "µs" if self.is_latency else "M/s" if self.size <= KIB else "GB/s"

    @property
    def name(self):
        return " ".join(part for part in (self.level.upper(), self.test, self.layout,
                                          size_text(self.size) if self.size else "",
                                          self.memory) if part)

    def value(self, columns):
        """The figure in `unit`, from ucx_perftest's CSV columns (its MB are 2**20 bytes; its median
        latency comes in steps of 5 ns)."""
        if self.is_latency:
            return float(columns["overall_lat" if self.latency == "mean" else "50.0_percentile_lat"])
        if self.unit == "M/s":
            return float(columns["overall_mr"]) / 1e6
        return float(columns["overall_bw"]) * MIB / 1e9

    def target_against(self, peer, placement):
        """None if there is no target."""
        return (self.limit_target if peer in self.limits else self.target)[placement != "near"]

    def reached(self, target, ratio):
        return ratio <= target if self.is_latency else ratio >= target


def size_text(size):
    for unit, text in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {text}"
    return f"{size} B"


def iterations(row):
    """For about a fifth of a second, from rough costs: 150 ns a message and 20 GB/s; for a whole one
    where RDMA devices are emulated: 50 µs and 60 MB/s."""
    if row.link == "verbs":
        return max(10, int(1e9 / (5e4 + row.size * 16)))
    nanoseconds = 150 + row.size / 20
    return max(4, min(1_000_000, int(2e8 / nanoseconds)))


TARGETS = [
    Row("uct", "am_lat", 8, "short", target=(0.85, 0.75), limits=("hand-over",),
        limit_target=(1.2, None)),
    Row("uct", "am_bw", 8, "short", target=(3, 4.5), limits=("line-rate",)),
    Row("uct", "am_bw", KIB, "bcopy", target=(1.8, 2)),
    Row("uct", "am_bw", 8 * KIB, "bcopy", target=(1.1, 2)),
    Row("ucp", "tag_lat", 8, target=(0.75, 0.75)),
    Row("ucp", "tag_lat", 64, target=(0.95, 0.9)),
    Row("ucp", "tag_lat", 128, target=(0.95, 0.9)),
    Row("ucp", "tag_lat", 256, target=(0.95, 0.9)),
    Row("ucp", "tag_lat", KIB, target=(0.85, 0.85)),
    Row("ucp", "tag_lat", 4 * KIB, target=(0.95, 0.9)),
    Row("ucp", "tag_lat", 16 * KIB, target=(0.95, 0.9)),
    Row("ucp", "tag_lat", 32 * KIB, target=(0.95, 0.9)),
    Row("ucp", "tag_bw", 8, target=(1.6, 3.2)),
    Row("ucp", "tag_bw", 64 * KIB, memory="heap", target=(1.2, 2), limits=("stream", "process-vm")),
    Row("ucp", "tag_bw", 256 * KIB, memory="heap", target=(1.25, 2), limits=("stream", "process-vm")),
    Row("ucp", "tag_bw", MIB, memory="heap", target=(1.4, 1.6), limits=("stream", "process-vm")),
    Row("ucp", "tag_bw", 8 * MIB, memory="heap", target=(1.5, 1.5), limits=("stream", "process-vm")),
    Row("ucp", "tag_bw", 64 * MIB, memory="heap", target=(2, 1.5), limits=("stream", "process-vm")),
    *(Row("ucp", test, size, memory="own", target=(2, 2), limits=("memcpy",),
          limit_target=(0.85, 0.85))
      for test in ("tag_bw", "ucp_put_bw", "ucp_get")
      for size in (64 * KIB, MIB, 8 * MIB)),
    Row("start", "ucx_lat", 0, target=(1.1, 1.1)),
]

# comch is to be ahead at every size.
MPI = [
    *(Row("mpi", test, size, target=(1, 1))
      for test in ("mpi_lat", "mpi_bw")
      for size in (1, 8, 64, 256, KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB,
                   16 * MIB, 64 * MIB)),
    *(Row("mpi", "mpi_used_lat", size, target=(1, 1))
      for size in (KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)),
    *(Row("mpi", "mpi_alltoall", size, target=(1, 1), ranks=8) for size in (KIB, 256 * KIB)),
]

# For the plots: latency and bandwidth over size.
CURVES = [
    *(Row("ucp", "tag_lat", 1 << power) for power in range(0, 23, 1)),
    *(Row("ucp", "tag_bw", 1 << power, memory="heap") for power in range(3, 27, 1)),
]

# Over RDMA devices: close to what verbs can do without comch, and ahead of libfabric at every size, and
# of UCX's own transport under UCP; so is comch through libfabric.
VERBS = [
    *(Row(level, test, size, target=(1, 1), limits=("ib_send",), limit_target=(1.15, 1.15),
          link="verbs")
      for level, test in (("core", "core_lat"), ("ucp", "tag_lat"))
      for size in (8, 512, 4 * KIB, 64 * KIB, MIB)),
    *(Row("uct", "am_lat", size, layout, limits=("ib_send",), limit_target=(1.15, 1.15), link="verbs")
      for layout, size in (("short", 8), ("bcopy", 512), ("bcopy", 4 * KIB))),
    Row("uct", "am_bw", 4 * KIB, "bcopy", limits=("ib_send",), limit_target=(0.9, 0.9), link="verbs"),
    *(Row("uct", "put_bw", size, "zcopy", limits=("ib_write",), limit_target=(0.9, 0.9), link="verbs")
      for size in (64 * KIB, MIB)),
    *(Row(level, test, size, target=(1, 1), limits=("ib_send", "ib_write"), limit_target=(0.9, 0.9),
          link="verbs")
      for level, test in (("core", "core_bw"), ("ucp", "tag_bw"))
      for size in (4 * KIB, 64 * KIB, MIB)),
    *(Row("fi", test, size, target=(1, 1), link="verbs")
      for test in ("tag_lat", "tag_bw") for size in (8, 4 * KIB, 64 * KIB, MIB)),
]

# Through libfabric, beside its provider for shared memory; MPI beside itself over UCX over comch.
LIBFABRIC = [
    *(Row("fi", test, size, target=(0.6, 0.6))
      for test in ("tag_lat", "pingpong_lat") for size in (64,)),
    *(Row("fi", "tag_used_lat", size, target=(1, 1)) for size in (KIB, 16 * KIB, 64 * KIB, 256 * KIB)),
    Row("fi", "tag_bw", 8, target=(2, 2)),
    *(Row("fi", test, size, target=(2.5, 1.7))
      for test in ("tag_bw", "pingpong_bw") for size in (64 * KIB, 256 * KIB, MIB)),
    *(Row("fi-mpi", "mpi_lat", size, target=(1.15, 1.15)) for size in (8, KIB, 64 * KIB)),
    *(Row("fi-mpi", "mpi_bw", size, target=(0.87, 0.87)) for size in (8, 64 * KIB, MIB)),
]

# The DOCA face beside the core: what it may cost at most. (Of the rate at 8 bytes no more is asked
# than that it is known: there is a task, with its callback, for each message.)
DOCA = [
    *(Row("doca", "doca_lat", size, target=(1.2, 1.2)) for size in (8, 256, 4 * KIB, 64 * KIB)),
    Row("doca", "doca_bw", 8),
    *(Row("doca", "doca_bw", size, target=(0.95, 0.95)) for size in (4 * KIB, 64 * KIB, MIB, 8 * MIB)),
]

# On the soft link, with many connections beside one: 512 that were used and fell quiet, and 64 senders.
SCALING = [
    Row("scaling", "quiet_lat", 8, target=(1.1, 1.1)),
    Row("scaling", "fan_in_bw", 8, target=(0.8, 0.8)),
]
