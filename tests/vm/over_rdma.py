"""What a test of tests/ needs to run over the two RDMA devices: the settings, and the proof that it did.

The tests themselves are those of the soft link, unchanged.
"""
import os
import sys

from machine import DEVICE, SOURCE, receivers_not_ready, sent_packets

sys.path.insert(0, str(SOURCE / "tests"))

# For tests that begin with an environment that says nothing of comch.
SETTINGS = {"COMCH_DOMAIN_FILE": os.environ["COMCH_DOMAIN_FILE"]}


class Witness:
    """Looks at the packets that the devices have sent, and that none met a receiver without buffers:
    credit keeps that from happening."""

    def __init__(self):
        self.begin = self.now()
        self.not_ready = receivers_not_ready()

    @staticmethod
    def now():
        return {side: sent_packets(side) for side in DEVICE}

    def assert_used(self, packets=1):
        """Both devices have sent as many packets at least since the beginning."""
        for side, sent in self.now().items():
            if sent - self.begin[side] < packets:
                raise AssertionError(f"{DEVICE[side]} has sent {sent - self.begin[side]} packets, "
                                     f"expected {packets}: the test went past it")
        not_ready = receivers_not_ready() - self.not_ready
        if not_ready:
            raise AssertionError(f"{not_ready} packets met a receiver that was not ready")
