"""fi_info and fi_pingpong of a stock libfabric over comch, the two ends on the two sides."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], "scripts"))
import perftest_pair  # noqa: E402

SIZES = ("64", "4096", "65536", "1048576", "0")
PATIENCE = 300
LAYERED = "comch;ofi_rxm"


def environment(side, domain, provider="comch"):
    build = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
    return os.environ | {"COMCH_SIDE": side, "COMCH_DOMAIN": domain,
                         "FI_PROVIDER_PATH": str(build / "lib" / "libfabric"),
                         "FI_PROVIDER": provider,
                         "FI_COMCH_LAYERING": "1" if provider == LAYERED else "0"}


def check(condition, what, output=""):
    if not condition:
        raise SystemExit(f"FAILED: {what}\n{output}")


def test_info(domain):
    text = subprocess.run(["fi_info", "-p", "comch"], env=environment("host", domain),
                          capture_output=True, text=True, check=True).stdout
    types = [line.split()[1] for line in text.splitlines() if line.strip().startswith("type:")]
    check(types == ["FI_EP_RDM", "FI_EP_MSG"], "fi_info offers both kinds of endpoints", text)
    settings = subprocess.run(["fi_info", "-e"], env=environment("host", domain),
                              capture_output=True, text=True, check=True, errors="replace").stdout
    for name in ("DOMAIN", "SIDE", "DEVICE", "HOST_DPU_ONLY", "LAYERING", "EAGER_SIZE",
                 "KEEP_REGISTRATIONS"):
        check(f"FI_COMCH_{name}" in settings, f"fi_info -e lists FI_COMCH_{name}", settings)


def pingpong(domain, endpoint, size, iterations, provider="comch"):
    port = str(perftest_pair.free_port())
    arguments = ["-p", provider, "-e", endpoint, "-c", "-S", size, "-I", iterations]
    # (What a crash leaves behind lands in the domain, where it is looked for.)
    server = subprocess.Popen(["fi_pingpong", "-B", port, *arguments], cwd=domain,
                              env=environment("dpu", domain, provider), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    client = None
    try:
        while not perftest_pair.is_listening(int(port)):
            check(server.poll() is None, "the server listens")
            time.sleep(0.01)
        client = subprocess.Popen(["fi_pingpong", "-P", port, *arguments, "127.0.0.1"],
                                  cwd=domain, env=environment("host", domain, provider),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = client.communicate(timeout=PATIENCE)[0]
        heard = server.communicate(timeout=PATIENCE)[0]
        name = f"fi_pingpong -p {provider} -e {endpoint} -S {size}"
        check(client.returncode == 0, f"{name}: the client ends well", said)
        check(server.returncode == 0, f"{name}: the server ends well", heard)
        check("data error" not in said + heard, f"{name}: the data is right", said + heard)
    finally:
        for process in (client, server):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def main():
    domain = tempfile.mkdtemp(prefix="comch-ofi-", dir="/dev/shm")
    try:
        test_info(domain)
        for endpoint in ("rdm", "msg"):
            for size in SIZES:
                pingpong(domain, endpoint, size, "200" if int(size) < 10000 else "20")
        for size in SIZES:
            pingpong(domain, "rdm", size, "20", LAYERED)
        left = sorted(entry.name for entry in pathlib.Path(domain).iterdir()
                      if not entry.name.startswith("domain."))
        check(not left, f"nothing is left in the domain: {left}")
    finally:
        shutil.rmtree(domain)
    print("passed")


if __name__ == "__main__":
    perftest_pair.enter_private_network()  # fi_pingpong's server listens on every address
    main()
