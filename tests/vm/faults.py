"""What happens to connections when their devices do not go on: an interface that goes down, for a
moment and for longer, a device that the administrator deletes, and a network that loses everything.
(Peers that die are among comch_perftest's own tests.)
"""
from concurrent import futures
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import gtests
import over_rdma
from machine import (BUILD, DEVICE, INTERFACE, PATIENCE, Processes, SOURCE, renew_devices,
                     restore_network, run, sent_packets, wait_for)
import comch_perftest_test

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
sys.path.insert(0, str(SOURCE / "scripts"))
import perftest_pair  # noqa: E402


# As the two ends see it.
WHAT_HAPPENED = "was removed or has failed|ended without closing the connection|process is gone"


FI_PERFTEST = [BUILD / "bin/comch_fi_perftest"]
FI_SETTINGS = {"FI_PROVIDER_PATH": str(BUILD / "lib/libfabric")}


def is_running(process):
    """Not one that has ended and waits for its parent either."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


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

    def assert_works_again(self):
        restore_network()
        self.programs.start_server("--name", "again")
        self.programs.run_program("--name", "again", "-n", "100", "-v")

    def test_an_interface_that_stays_down(self):
        for side in INTERFACE:
            for kind in self.programs.kinds():
                with self.subTest(side=side, kind=kind):
                    server, client = self.pair(kind)
                    self.tell("ip", "link", "set", INTERFACE[side], "down")
                    for process in (client, server):
                        self.assertTrue(self.programs.words_at_the_end(process))
                    renew_devices()
        self.assert_works_again()

    def test_an_interface_that_is_down_for_a_moment(self):
        # The devices break what is to be sent meanwhile (see renew_devices), so the connection ends,
        # unless nothing was. (That a port may be down for a while is among the link's own tests.)
        for side in INTERFACE:
            with self.subTest(side=side):
                server, client = self.pair(("--mode", "two-way"))
                self.tell("ip", "link", "set", INTERFACE[side], "down")
                self.tell("ip", "link", "set", INTERFACE[side], "up")
                if client.poll() is None:
                    client.send_signal(signal.SIGINT)
                for process in (client, server):
                    self.assertTrue(self.programs.words_at_the_end(process))
                renew_devices()
        self.assert_works_again()

    def test_a_network_that_loses_everything(self):
        """The devices work and their ports are up, but nothing that the host sends arrives."""
        arrives = ("pref", "1", "iif", INTERFACE["dpu"], "lookup", "local")
        for kind in self.programs.kinds():
            with self.subTest(kind=kind):
                server, client = self.pair(kind)
                self.tell("ip", "rule", "del", *arrives)
                try:
                    for process in (client, server):
                        # (It ends by itself where nothing moves for 30 s, without these words.)
                        self.assertRegex(self.programs.words_at_the_end(process), "can no longer be reached")
                finally:
                    self.tell("ip", "rule", "add", *arrives)
        self.assert_works_again()

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

    def test_a_device_that_is_deleted_under_programs_of_the_middleware(self):
        """The administrator's command returns, and the programs are told: they end, with an error."""
        ucx = perftest_pair.comch_transport(BUILD)
        programs = {
            "UCX, messages": lambda: perftest_pair.run_pair(
                ucx, ["-t", "tag_lat", "-s", "8", "-n", "100000000"], PATIENCE),
            "UCX, rendezvous": lambda: perftest_pair.run_pair(
                ucx, ["-t", "tag_bw", "-s", "1048576", "-n", "100000000"], PATIENCE),
            "libfabric": lambda: run(*FI_PERFTEST, "bw", "--size", "64K", "--seconds", "60", **FI_SETTINGS),
        }
        for side in DEVICE:
            for name, begin in programs.items():
                with self.subTest(side=side, program=name), futures.ThreadPoolExecutor(1) as pool:
                    restore_network()
                    before = sent_packets(side)
                    program = pool.submit(begin)
                    wait_for(lambda: program.done() or sent_packets(side) - before > 500, "traffic")
                    try:
                        took = self.tell("rdma", "link", "del", DEVICE[side])
                    except subprocess.TimeoutExpired:
                        program.result()  # who does not let go of it says where it is
                        raise
                    with self.assertRaises((perftest_pair.PairError, subprocess.CalledProcessError)) as end:
                        program.result()
                    words = str(end.exception) + str(getattr(end.exception, "stderr", ""))
                    self.assertNotIn("it took too long", words)
                    self.assertRegex(words, WHAT_HAPPENED)
                    self.assertLess(took, PATIENCE / 3)
        self.assert_works_again()

    def test_a_device_that_is_deleted_under_a_program_that_only_waits(self):
        """Nothing of it is under way towards anybody: its receives end all the same."""
        for side in DEVICE:
            with self.subTest(side=side), Processes() as deletions, Processes() as processes:
                restore_network()
                before = sent_packets(side)
                parent = processes.start(*FI_PERFTEST, "lat", "--size", "8", "--seconds", "60", **FI_SETTINGS)
                wait_for(lambda: parent.poll() is not None or sent_packets(side) - before > 500, "traffic")
                child = int(subprocess.run(["pgrep", "-P", str(parent.pid)], check=True, capture_output=True,
                                           text=True).stdout)
                # The host's process has begun it. The other one's message will not come any more.
                stopped, waits = {"host": (child, parent.pid), "dpu": (parent.pid, child)}[side]
                os.kill(stopped, signal.SIGSTOP)
                deletion = deletions.start("rdma", "link", "del", DEVICE[side])
                wait_for(lambda: not is_running(waits), "the end of who waits")
                if is_running(stopped):
                    os.kill(stopped, signal.SIGCONT)
                words = processes.finish(parent, status=1)[1]
                self.assertRegex(words, "the device was removed or has failed")
                deletions.finish(deletion)
        self.assert_works_again()

    def test_a_device_that_is_deleted_under_endpoints_of_libfabric(self):
        program = gtests.Program("ofi_comch_rdma_tests")
        settings = {"COMCH_SIDE": "dpu", "COMCH_TEST_DELETION": f"rdma link del {DEVICE['dpu']}"}
        for name in program.names("Deletion.*"):
            with self.subTest(name):
                restore_network()
                subprocess.run([program.path, f"--gtest_filter={name}"], check=True, stdin=subprocess.DEVNULL,
                               env=gtests.environment() | settings, timeout=PATIENCE)
                wait_for(lambda: not os.path.exists(f"/sys/class/infiniband/{DEVICE['dpu']}"), "its deletion")
        self.assert_works_again()

    def test_a_device_that_is_deleted_under_a_server_without_clients(self):
        self.programs.start_server()
        self.tell("rdma", "link", "del", DEVICE["dpu"])
        self.assert_works_again()


if __name__ == "__main__":
    unittest.main(verbosity=2)
