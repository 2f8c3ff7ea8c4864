"""comch_perftest's own tests, over the RDMA devices."""
import subprocess
import unittest

import over_rdma
import comch_perftest_test

# Emulated, on a machine that may be crowded.
comch_perftest_test.PATIENCE = 240


class OverRdma(comch_perftest_test.Perftest):
    COUNT = 20
    MANY = 500
    STANDSTILL = 10
    SECONDS_OF = 20000
    # These end before the two sides have met.
    WITHOUT_TRAFFIC = {"test_help", "test_wrong_command_lines", "test_the_wrong_side",
                       "test_nobody_there", "test_a_name_that_is_taken", "test_too_much_memory"}

    # Here the link gives up earlier, by itself.
    test_a_server_that_stands_still_is_connected_to_for_as_long_as_timeout_says = None

    def setUp(self):
        super().setUp()
        self.environment.update(over_rdma.SETTINGS)
        witness = over_rdma.Witness()
        if self._testMethodName not in self.WITHOUT_TRAFFIC:
            self.addCleanup(witness.assert_used)

    def test_a_limit_of_locked_memory_that_is_too_low(self):
        # An administrator is not bound by it: without that right.
        self.start_server()
        limited = subprocess.run(
            ["setpriv", "--bounding-set=-ipc_lock", "prlimit", "--memlock=65536:65536",
             comch_perftest_test.PROGRAM, "-n", "100"],
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=comch_perftest_test.PATIENCE, check=False)
        self.assertNotEqual(limited.returncode, 0)
        self.assertIn("the limit of locked memory is 64 KiB; raise it with", limited.stderr)
        self.run_program("-n", "100")  # the server goes on serving


if __name__ == "__main__":
    unittest.main(verbosity=2)
