#!/usr/bin/env python3
"""A host and a DPU whose CPUs are of different kinds: one half of each pair is this machine's build, the
other the build for aarch64, which QEMU runs; they talk over the soft device, each as either side.

usage: mixed.py core | control | doca | libfabric | ucx | kill

COMCH_BUILD_DIR is the build for aarch64, COMCH_NATIVE_BUILD_DIR this machine's; COMCH_EMULATOR is the
command that runs the former's programs, and COMCH_ARM_SYSROOT where the packages of its side are.
"""
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time

for folder in "scripts", "tests":
    sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], folder))
import perftest_pair  # noqa: E402
from program import Program, ProgramError  # noqa: E402

SYSROOT = pathlib.Path(os.environ["COMCH_ARM_SYSROOT"])


class Native:
    build = pathlib.Path(os.environ["COMCH_NATIVE_BUILD_DIR"])
    name = "native"

    def own(self, program):
        return [str(self.build / "bin" / program)]

    def stock(self, program):
        return [program]


class Arm:
    build = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
    emulator = os.environ["COMCH_EMULATOR"].split()
    name = "aarch64"

    def own(self, program):
        return [*self.emulator, str(self.build / "bin" / program)]

    def stock(self, program):
        return [*self.emulator, str(SYSROOT / "usr/bin" / program)]


PAIRS = [(Native(), Arm()), (Arm(), Native())]  # host, DPU


def check(condition, *what):
    if not condition:
        raise SystemExit(" ".join(str(word) for word in what))


def start(command, **settings):
    return Program(command, os.environ | settings)


def wait_for_listener(program, port):
    until = time.monotonic() + Program.PATIENCE
    while not perftest_pair.is_listening(port):
        check(program.process.poll() is None and time.monotonic() < until, *program.command,
              "does not listen:\n", program.text)
        time.sleep(0.01)


SERVING = "serving the clients"


def perftest(host, dpu, *options):
    with start([*dpu.own("comch_perftest"), "--server"]) as server:
        server.wait_for(SERVING)
        with start([*host.own("comch_perftest"), "--verify", "--no-progress", "--format", "json",
                      *options]) as client:
            results = json.loads(client.finish())["results"]
        server.finish()
    check(results and all(result["messages"] > 0 for result in results), "nothing was measured")


def core(host, dpu):
    """Every byte is compared at both ends: short records, packed ones, and both bulk ways."""
    for mode in "ping-pong", "one-way", "two-way":
        perftest(host, dpu, "--mode", mode, "--sizes", "1,8,56,57,504,505,2K,4089,32K,100001", "-n", "200")
        perftest(host, dpu, "--mode", mode, "--sizes", "1000003", "-n", "6")


def control(host, dpu):
    perftest(host, dpu, "--path", "control", "--sizes", "1,57,1000,4080", "-n", "500")


def doca(host, dpu):
    """Programs of the vendor's API, on a DPU that has the architecture of one."""
    for sample, ready, of_both in (
            ("cc", "Listening as", "Received: "),
            ("comch_ctrl_path", "Waiting for a client", "Received: "),
            ("comch_data_path_high_speed", "Waiting for a client", "Received on the fast path: ")):
        with start([*dpu.own(f"doca_{sample}_server"), "-p", "03:00.0", "-r", "3b:00.0",
                      "-t", "from below"]) as server:
            server.wait_for(ready)
            with start([*host.own(f"doca_{sample}_client"), "-p", "3b:00.0",
                          "-t", "from above"]) as client:
                check(of_both + "from below" in client.finish(), sample, "client:", client.text)
            check(of_both + "from above" in server.finish(), sample, "server:", server.text)


def libfabric(host, dpu):
    """fi_pingpong compares what arrives (-c)."""
    def environment(kind, side):
        return {"FI_PROVIDER_PATH": str(kind.build / "lib/libfabric"), "FI_PROVIDER": "comch",
                "COMCH_SIDE": side}

    for endpoint in "rdm", "msg":
        for size, rounds in (("64", 200), ("4096", 100), ("65536", 20), ("1048576", 5)):
            port = perftest_pair.free_port()
            options = ["-p", "comch", "-e", endpoint, "-c", "-S", size, "-I", str(rounds)]
            with start([*dpu.stock("fi_pingpong"), "-B", str(port), *options],
                         **environment(dpu, "dpu")) as server:
                wait_for_listener(server, port)
                with start([*host.stock("fi_pingpong"), "-P", str(port), *options, "127.0.0.1"],
                             **environment(host, "host")) as client:
                    said = client.finish()
                said += server.finish()
            check("data error" not in said, said)


COMPLAINT = re.compile(r"\b(?:ERROR|WARN|FATAL|Assertion)\b|Caught signal")


def ucx(host, dpu):
    def environment(kind, side):
        return {"LD_PRELOAD": str(kind.build / "lib/ucx/libuct_comch.so"), "UCX_TLS": "comch",
                "COMCH_SIDE": side}

    for test, sizes in (("tag_lat", (8, 1000, 40000)), ("tag_bw", (8, 9000, 1 << 20)),
                        ("ucp_am_lat", (8, 40000)), ("ucp_put_lat", (8, 40000)),
                        ("ucp_get", (8, 40000)), ("ucp_fadd", (8,))):
        for size in sizes:
            port = perftest_pair.free_port()
            with start([*dpu.stock("ucx_perftest"), "-p", str(port)],
                         **environment(dpu, "dpu")) as server:
                wait_for_listener(server, port)
                with start([*host.stock("ucx_perftest"), "-p", str(port), "127.0.0.1", "-t", test,
                              "-s", str(size), "-n", "100" if size < 10000 else "10", "-w", "5"],
                             **environment(host, "host")) as client:
                    said = client.finish()
                said += server.finish()
            check(not COMPLAINT.search(said), test, size, ":\n", said)


def kill(host, dpu):
    """Who is left learns of the other's end, whatever runs the other."""
    for victim in "server", "client":
        with start([*dpu.own("comch_perftest"), "--server"]) as server:
            server.wait_for(SERVING)
            with start([*host.own("comch_perftest"), "--mode", "two-way", "--duration", "600",
                          "--warm-up", "1", "--progress"]) as client:
                client.wait_for("8 ")
                {"server": server, "client": client}[victim].process.kill()
                (client if victim == "server" else server).finish(code=1)


TESTS = {test.__name__: test for test in (core, control, doca, libfabric, ucx, kill)}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in TESTS:
        sys.exit(__doc__)
    for name in [name for name in os.environ if name.startswith(("COMCH_SIDE", "COMCH_D"))]:
        del os.environ[name]
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="comch-mixed-"))
        os.chdir(directory)
        os.environ["COMCH_DOMAIN"] = os.path.join(directory, "domain")
        for host, dpu in PAIRS:
            print(f"{sys.argv[1]}: host {host.name}, DPU {dpu.name}", flush=True)
            TESTS[sys.argv[1]](host, dpu)
    print("ok")


if __name__ == "__main__":
    perftest_pair.enter_private_network()  # some servers listen on every address
    try:
        main()
    except ProgramError as error:
        sys.exit(str(error))
