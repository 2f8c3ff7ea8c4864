"""comch_info shows both RDMA devices, each on its side, with its port, its addresses and what it can do."""
import json
import os
import tempfile
import unittest

import over_rdma
from machine import ADDRESS, BUILD, DEVICE, INTERFACE, Processes


class Info(unittest.TestCase):
    def run_program(self, *options):
        with Processes() as processes, tempfile.TemporaryDirectory() as folder:
            out, _ = processes.run(BUILD / "bin/comch_info", *options, **over_rdma.SETTINGS,
                                   COMCH_DOMAIN=os.path.join(folder, "domain"))
        return out

    def test_both_devices(self):
        info = json.loads(self.run_program("--json"))
        self.assertEqual(info["transport"], "rdma")
        devices = {device["name"]: device for device in info["rdma_devices"]}
        self.assertEqual(set(devices), set(DEVICE.values()))
        for side, name in DEVICE.items():
            device = devices[name]
            self.assertEqual(device["side"], side)
            [port] = device["ports"]
            self.assertEqual(port["interfaces"], [INTERFACE[side]])
            self.assertIn(ADDRESS[side], port["addresses"])
            self.assertEqual(port["capabilities"]["max_message"], 8 << 20)
            self.assertGreater(port["capabilities"]["memory_pieces"], 1)
            self.assertIsNone(port["unusable"])

    def test_text(self):
        out = self.run_program()
        for side, name in DEVICE.items():
            self.assertRegex(out, rf"{name} .* side {side}")
            self.assertIn(ADDRESS[side], out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
