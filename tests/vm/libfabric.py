"""fi_info and fi_pingpong of a stock libfabric over the RDMA devices: the soft link's test, unchanged."""
import os

import over_rdma

# Two processes meet over TCP; here nobody else is in the network.
os.environ["COMCH_PRIVATE_NETWORK"] = "1"
import ofi_pingpong_test  # noqa: E402

if __name__ == "__main__":
    witness = over_rdma.Witness()
    ofi_pingpong_test.main()
    witness.assert_used(1000)
