"""comch_info shows both RDMA devices, each on its side, with its port and address."""
import os
import tempfile
import unittest

import over_rdma
from machine import ADDRESS, BUILD, DEVICE, Processes


class Info(unittest.TestCase):
    def test_both_devices(self):
        with Processes() as processes, tempfile.TemporaryDirectory() as folder:
            out, _ = processes.run(BUILD / "bin/comch_info", **over_rdma.SETTINGS,
                                   COMCH_DOMAIN=os.path.join(folder, "domain"))
        for side, device in DEVICE.items():
            self.assertIn(device, out)
            self.assertIn(ADDRESS[side], out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
