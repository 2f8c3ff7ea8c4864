"""The devices of the virtual machine, with nothing of comch: both are active, each has its address,
and connections between the two addresses end up on the right ones, made by hand and by rdma_cm.
"""
import pathlib
import re
import unittest

from machine import ADDRESS, DEVICE, Processes, sent_packets, wait_for


def listens(port):
    """On TCP; perftest's and the pingpong's servers accept one connection only."""
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for table in ("/proc/net/tcp", "/proc/net/tcp6")
               for line in pathlib.Path(table).read_text(encoding="ascii").splitlines()[1:])


class Stack(unittest.TestCase):
    def setUp(self):
        self.processes = Processes()
        self.addCleanup(self.processes.close)
        self.sent = {side: sent_packets(side) for side in DEVICE}

    def pair(self, server, client, port):
        running = self.processes.start(*server)
        wait_for(lambda: listens(port) or running.poll() is not None, f"{server[0]} listens")
        out, _ = self.processes.run(*client)
        self.processes.finish(running)
        return out

    def assert_both_sent(self, packets):
        """Through its own device each, neither through the other's or past them."""
        for side in DEVICE:
            self.assertGreaterEqual(sent_packets(side) - self.sent[side], packets, DEVICE[side])

    def test_devices(self):
        for side, device in DEVICE.items():
            out, _ = self.processes.run("ibv_devinfo", "-v", "-d", device)
            self.assertIn("PORT_ACTIVE", out)
            self.assertRegex(out, r"active_mtu:\s+4096")
            self.assertIn(f"::ffff:{ADDRESS[side]}", out)
        out, _ = self.processes.run("rdma", "link", "show")
        self.assertRegex(out, r"rxe0/1 state ACTIVE .* netdev h0")
        self.assertRegex(out, r"rxe1/1 state ACTIVE .* netdev d0")

    def client_came_through(self, server, client):
        process = self.processes.start("rping", "-c", "-v", "-a", ADDRESS[server],
                                       "-I", ADDRESS[client], "-C", "20")
        out, _ = self.processes.finish(process, status=None)
        return "ping data: rdma-ping-19" in out

    def test_rdma_cm(self):
        for server, client in (("dpu", "host"), ("host", "dpu")):
            self.processes.start("rping", "-s", "-a", ADDRESS[server], "-C", "20")
            # It does not say when it listens; a client that is too early is refused.
            wait_for(lambda: self.client_came_through(server, client), "rping from " + client)
        self.assert_both_sent(20)

    def test_reliable_connection(self):
        out = self.pair(["ibv_rc_pingpong", "-d", "rxe1", "-g", "1", "-n", "200"],
                        ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "200", "127.0.0.1"], 18515)
        self.assertIn("200 iters", out)
        self.assert_both_sent(200)

    def test_latency(self):
        out = self.pair(["ib_send_lat", "-d", "rxe1", "-x", "1", "-n", "500"],
                        ["ib_send_lat", "-d", "rxe0", "-x", "1", "-n", "500", "127.0.0.1"], 18515)
        self.assertTrue(re.search(r"^ *2 +500 ", out, re.MULTILINE), out)
        self.assert_both_sent(500)


if __name__ == "__main__":
    unittest.main(verbosity=2)
