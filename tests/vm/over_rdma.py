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
    """Looks at the packets that the devices have sent, and that they met receivers with buffers: credit
    sees to that. Soft-RoCE says the same of a read whose answer it cannot send, as may happen on a crowded
    machine; without credit it would happen all the time.
    """
    PACKETS_FOR_ONE_NOT_READY = 10_000

    def __init__(self):
        self.begin = self.now()
        self.not_ready = receivers_not_ready()

    @staticmethod
    def now():
        return {side: sent_packets(side) for side in DEVICE}

    def assert_used(self, packets=1):
        """Both devices have sent as many packets at least since the beginning."""
        sent = {side: now - self.begin[side] for side, now in self.now().items()}
        for side, count in sent.items():
            if count < packets:
                raise AssertionError(f"{DEVICE[side]} has sent {count} packets, "
                                     f"expected {packets}: the test went past it")
        not_ready = receivers_not_ready() - self.not_ready
        if not_ready > sum(sent.values()) // self.PACKETS_FOR_ONE_NOT_READY:
            raise AssertionError(f"{not_ready} packets of {sent} met a receiver that was not ready")
