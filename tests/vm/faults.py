"""What happens to connections when their devices do not go on: an interface that goes down, for a
moment and for longer, and a device that the administrator deletes. (Peers that die are among
comch_perftest's own tests.)
"""
import re
import signal
import subprocess
import time
import unittest

import over_rdma
from machine import ADDRESS, DEVICE, INTERFACE, PATIENCE, restore_network
import comch_perftest_test


class Faults(unittest.TestCase):
    """Not a subclass of comch_perftest's tests, whose tests would run again: has one of them."""

    def setUp(self):
        self.programs = comch_perftest_test.Perftest("run_program")
        self.programs.setUp()
        self.addCleanup(self.programs.doCleanups)
        self.programs.environment.update(over_rdma.SETTINGS)
        self.addCleanup(restore_network)

    def tell(self, *command):
        began = time.monotonic()
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        return time.monotonic() - began

    def pair(self, kind):
        return self.programs.start_server(), self.programs.start_long_client(*kind)

    def assert_goes_on(self, client, more=3):
        """Its progress lines, one a second, count more and more messages."""
        counts = []
        end = time.monotonic() + PATIENCE
        while len(counts) < more:
            self.assertLess(time.monotonic(), end, "the client stands still")
            line = client.stderr.readline()
            self.assertTrue(line, "the client has ended")
            found = re.search(r"(\d+) messages", line)
            if found and (not counts or int(found[1]) > counts[-1]):
                counts.append(int(found[1]))

    def assert_works_again(self):
        restore_network()
        self.programs.start_server("--name", "again")
        self.programs.run_program("--name", "again", "-n", "100", "-v")

    def test_an_interface_that_stays_down(self):
        for side in INTERFACE:
            for kind in self.programs.kinds():
                with self.subTest(side=side, kind=kind):
                    restore_network()
                    server, client = self.pair(kind)
                    self.tell("ip", "link", "set", INTERFACE[side], "down")
                    for process in (client, server):
                        self.assertTrue(self.programs.words_at_the_end(process))
        self.assert_works_again()

    def down_for_a_moment(self, side):
        """For how long it was down, in seconds."""
        name, other = INTERFACE[side], {"host": "dpu", "dpu": "host"}[side]
        table = {"host": "100", "dpu": "101"}[side]
        began = time.monotonic()
        self.tell("ip", "link", "set", name, "down")
        time.sleep(0.2)  # what is under way meanwhile is lost, and sent again
        self.tell("ip", "link", "set", name, "up")
        self.tell("ip", "route", "replace", f"{ADDRESS[other]}/32", "dev", name, "src",
                  ADDRESS[side], "table", table)
        return time.monotonic() - began

    def test_an_interface_that_is_down_for_a_moment(self):
        for side in INTERFACE:
            with self.subTest(side=side):
                # A machine without CPUs to spare may take longer than the grace of two seconds.
                for _ in range(10):
                    server, client = self.pair(("--mode", "two-way"))
                    if self.down_for_a_moment(side) < 1.5:
                        break
                    client.kill()
                    self.programs.words_at_the_end(server)
                self.assert_goes_on(client)
                client.send_signal(signal.SIGINT)
                self.assertIn("interrupted", self.programs.words_at_the_end(client))
                self.assertIn("the client has left", self.programs.words_at_the_end(server))

    def test_a_device_that_is_deleted(self):
        for side in DEVICE:
            for kind in self.programs.kinds():
                with self.subTest(side=side, kind=kind):
                    restore_network()
                    server, client = self.pair(kind)
                    took = self.tell("rdma", "link", "del", DEVICE[side])
                    for process in (client, server):
                        self.assertTrue(self.programs.words_at_the_end(process))
                    self.assertLess(took, PATIENCE / 3)
        self.assert_works_again()

    def test_a_device_that_is_deleted_under_a_server_without_clients(self):
        self.programs.start_server()
        self.tell("rdma", "link", "del", DEVICE["dpu"])
        self.assert_works_again()


if __name__ == "__main__":
    unittest.main(verbosity=2)
