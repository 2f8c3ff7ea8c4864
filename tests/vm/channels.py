"""The channel layer's tests over the RDMA devices: those of them that take the link which the domain's
description says, not the fake one; and what reaches exported memory.
"""
import sys

import over_rdma
from gtests import Program

witness = over_rdma.Witness()
failed = Program("comch_channel_test").run("*/Soft*", forking="*Death.*")
witness.assert_used(1000)

# Memory is served by a thread of its own, for as long as the process lives: tests that make no sense
# over RDMA are those of strangers at the soft link's door.
witness = over_rdma.Witness()
failed += Program("comch_transfer_test").run("Transfer.*", without="Transfer.Strangers*",
                                             forking="Transfer.AForked*")
witness.assert_used(300)
sys.exit(failed)
