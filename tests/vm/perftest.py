"""comch_perftest's own tests, over the RDMA devices."""
import unittest

import over_rdma
import comch_perftest_test

# Emulated, on a machine that may be crowded.
comch_perftest_test.PATIENCE = 240


class OverRdma(comch_perftest_test.Perftest):
    COUNT = 20
    MANY = 500
    STANDSTILL = 10
    # These end before the two sides have met.
    WITHOUT_TRAFFIC = {"test_help", "test_wrong_command_lines", "test_the_wrong_side",
                       "test_nobody_there", "test_a_name_that_is_taken", "test_too_much_memory"}

    def setUp(self):
        super().setUp()
        self.environment.update(over_rdma.SETTINGS)
        witness = over_rdma.Witness()
        if self._testMethodName not in self.WITHOUT_TRAFFIC:
            self.addCleanup(witness.assert_used)


if __name__ == "__main__":
    unittest.main(verbosity=2)
