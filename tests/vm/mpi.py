"""OpenMPI jobs over the RDMA devices: mpi_tests/run.py, and the proof that they did."""
import subprocess
import sys

import over_rdma
from machine import SOURCE

witness = over_rdma.Witness()
code = subprocess.run([sys.executable, str(SOURCE / "mpi_tests/run.py"), "--mpi", "openmpi",
                       "--ranks", "2", "--layout", "mixed", "--logs", "/tmp/mpi-logs",
                       "--tests", "pt2pt_modes,matching,collectives,onesided"],
                      stdin=subprocess.DEVNULL, check=False).returncode
witness.assert_used(1000)
sys.exit(code)
