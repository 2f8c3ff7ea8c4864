"""OpenMPI jobs over the RDMA devices, by way of UCX and of libfabric: mpi_tests/run.py, and the proof
that they did. --rest: those that are left out where time is short.
"""
import subprocess
import sys

import over_rdma
from machine import SOURCE

# Over libfabric without what run.py leaves out there.
TESTS = {"comch": "pt2pt_modes,onesided", "comch-ofi": "matching,onesided"}
REST = {"comch": "matching,collectives", "comch-ofi": "collectives"}

failed = 0
for transport, tests in (REST if "--rest" in sys.argv else TESTS).items():
    witness = over_rdma.Witness()
    failed |= subprocess.run([sys.executable, str(SOURCE / "mpi_tests/run.py"), "--mpi", "openmpi",
                              "--transport", transport, "--ranks", "2", "--layout", "mixed",
                              "--logs", f"/tmp/mpi-logs-{transport}", "--tests", tests],
                             stdin=subprocess.DEVNULL, check=False).returncode
    witness.assert_used(1000)
sys.exit(failed)
