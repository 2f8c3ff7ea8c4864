"""An OpenMPI job over a host and a DPU in different namespaces chooses comch by itself; and it runs
over comch by way of libfabric, where it is told to.

The programs check every byte, and (COMCH_MPI_REQUIRE_COUNTERS) that comch's own counters saw all of
them; with one rank on each side and no UCX_TLS this proves that UCX chose comch between the sides.
(One-sided operations by way of libfabric are tested here and not among ranks of one machine: there
OpenMPI 4.1 ends in a fault of its own, docs/libfabric.md.)
"""
import os
import subprocess
import sys

import lab

BUILD = os.environ["COMCH_BUILD_DIR"]
SOURCE = os.environ["COMCH_SOURCE_DIR"]
TIMEOUT = 400


WAYS = {  # OpenMPI's settings, and how the library is found
    "ucx": ("openmpi-comch.conf", {"LD_PRELOAD": f"{BUILD}/lib/ucx/libuct_comch.so"}),
    "libfabric": ("openmpi-comch-ofi.conf", {"FI_PROVIDER_PATH": f"{BUILD}/lib/libfabric"}),
}


def run_job(the_lab, directory, ranks_per_side, program, settings, way="ucx"):
    domain = os.path.join(directory, "domain")
    tuning, loading = WAYS[way]
    environment = {
        **loading,
        "COMCH_DOMAIN": domain,
        "COMCH_MPI_REQUIRE_COUNTERS": "1",
        **settings,
    }
    command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
               "--tune", f"{SOURCE}/config/{tuning}",
               "--mca", "plm_rsh_agent", the_lab.remote_shell(directory),
               "--mca", "oob_tcp_if_include", lab.SUBNET,
               "--mca", "mpi_yield_when_idle", "1",
               "--host", f"{lab.HOST_ADDRESS}:{ranks_per_side},{lab.DPU_ADDRESS}:{ranks_per_side}"]
    for name, value in environment.items():
        command += ["-x", f"{name}={value}"]
    command += [f"{BUILD}/mpi_tests/openmpi/{program}"]
    result = subprocess.run(the_lab.command("host", command), capture_output=True, text=True,
                            timeout=TIMEOUT, check=False)
    output = result.stdout + result.stderr
    if result.returncode != 0 or f"PASS {program}" not in output:
        print(output[-6000:])
        raise SystemExit(f"{program} failed with {result.returncode} ({settings})")
    left = sorted(set(os.listdir(domain)) - {"domain.id", "domain.lock"})
    if left:
        raise SystemExit(f"{program} left {left} in the domain's directory")
    print(f"ok: {program}, {ranks_per_side} rank(s) on each side, by {way}, {settings}")


def main():
    with lab.temporary_directory() as directory, lab.Lab() as the_lab:
        run_job(the_lab, directory, 1, "pt2pt_modes", {})
        run_job(the_lab, directory, 2, "pt2pt_modes", {"UCX_TLS": "comch"})
        if os.path.isdir(f"{BUILD}/lib/libfabric"):  # built where there is a libfabric
            run_job(the_lab, directory, 2, "onesided", {}, "libfabric")


if __name__ == "__main__":
    sys.exit(main())
