"""OpenMPI jobs over the RDMA devices, by way of UCX and of libfabric: mpi_tests/run.py, and the proof
that they did.
"""
import subprocess
import sys

import over_rdma
from machine import SOURCE

# Not onesided over libfabric: OpenMPI's own fault stops it (docs/libfabric.md).
TESTS = {"comch": "pt2pt_modes,matching,collectives,onesided", "comch-ofi": "matching,collectives"}

failed = 0
for transport, tests in TESTS.items():
    witness = over_rdma.Witness()
    failed |= subprocess.run([sys.executable, str(SOURCE / "mpi_tests/run.py"), "--mpi", "openmpi",
                              "--transport", transport, "--ranks", "2", "--layout", "mixed",
                              "--logs", f"/tmp/mpi-logs-{transport}", "--tests", tests],
                             stdin=subprocess.DEVNULL, check=False).returncode
    witness.assert_used(1000)
sys.exit(failed)
