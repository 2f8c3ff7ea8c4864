"""What a test of tests/ needs to run over the two RDMA devices: the settings, and the proof that it did.

The tests themselves are those of the soft link, unchanged.
"""
import os
import sys

from machine import DEVICE, SOURCE, sent_packets

sys.path.insert(0, str(SOURCE / "tests"))

# For tests that begin with an environment that says nothing of comch.
SETTINGS = {"COMCH_DOMAIN_FILE": os.environ["COMCH_DOMAIN_FILE"]}


class Witness:
    """Looks at the packets that the devices have sent."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        return {side: sent_packets(side) for side in DEVICE}

    def assert_used(self, packets=1):
        """Both devices have sent as many packets at least since the beginning."""
        for side, sent in self.now().items():
            if sent - self.begin[side] < packets:
                raise AssertionError(f"{DEVICE[side]} has sent {sent - self.begin[side]} packets, "
                                     f"expected {packets}: the test went past it")

