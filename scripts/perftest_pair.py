#!/usr/bin/env python3
"""Runs ucx_perftest as two processes on this machine: a server on the DPU side, a client on the host
side, over comch or over transports of UCX's own. What the client prints is shown.

usage: perftest_pair.py [--tls comch] [--build-dir build] -- -t tag_lat -s 8 [ucx_perftest options]
"""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


class PairError(Exception):
    """The pair did not run to its end; the text holds both processes' last words."""


@dataclasses.dataclass(frozen=True)
class Transport:
    """What to set so that ucx_perftest uses certain transports."""
    tls: str                     # the value of UCX_TLS
    module: pathlib.Path = None  # comch's UCT module, for transports that are not UCX's own
    allocation: str = ""         # UCX_ALLOC_PRIO: where the buffers come from
    settings: dict = dataclasses.field(default_factory=dict)  # by side: what else there is to set

    def environment(self, side):
        # The caller's UCX_* settings would make this another measurement.
        env = {k: v for k, v in os.environ.items() if not k.startswith("UCX_")}
        env["UCX_TLS"] = self.tls
        env["UCX_WARN_UNUSED_ENV_VARS"] = "n"
        # ucx_perftest sends from memory that nobody has written to: of the heap that is one page of zeros,
        # over and over, which is copied out of the first cache. The C library writes to it with this.
        env["MALLOC_PERTURB_"] = "85"
        if self.module:
            env["LD_PRELOAD"] = str(self.module)
            env["COMCH_SIDE"] = side
        if self.allocation:
            env["UCX_ALLOC_PRIO"] = self.allocation
        return env | self.settings.get(side, {})


def comch_transport(build_dir, allocation=""):
    module = pathlib.Path(build_dir) / "lib/ucx/libuct_comch.so"
    if not module.is_file():
        raise PairError(f"{module} does not exist: build first, or give --build-dir")
    return Transport("comch", module.resolve(), allocation)


def enter_private_network():
    """Starts this program again where the only network is a loopback of its own: ucx_perftest's
    server listens on every address, and would be reachable from outside. False if the system does
    not allow that."""
    if os.environ.get("COMCH_PRIVATE_NETWORK"):
        return True
    if os.geteuid() == 0:
        prefix = ["unshare", "--net"]
    else:
        # The user keeps his own id, since comch checks who owns the domain's directory.
        prefix = ["unshare", "--user", "--map-current-user", "--keep-caps", "--net"]
    prefix += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    probe = subprocess.run(prefix + ["true"], stdin=subprocess.DEVNULL, capture_output=True,
                           check=False)
    if probe.returncode != 0:
        print("note: no network namespace may be made here, so ucx_perftest's server listens on "
              "all addresses while it runs", file=sys.stderr)
        return False
    os.environ["COMCH_PRIVATE_NETWORK"] = "1"
    sys.stdout.flush()
    os.execvp(prefix[0], prefix + [sys.executable] + sys.argv)


def two_cpus():
    """The CPUs for server and client; None where there is nothing to choose."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[0], cpus[1]) if len(cpus) > 1 else (None, None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    # The server accepts one connection only, so it must not be tried out by connecting.
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = pathlib.Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def start(command, env, cpu):
    if cpu is not None:
        command = ["taskset", "-c", str(cpu)] + command
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")


@contextlib.contextmanager
def started(command, env, cpu):
    """A process that does not outlive the block: left alone, either half of a pair may spin for ever."""
    process = start(command, env, cpu)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def finish(process, deadline):
    try:
        return process.communicate(timeout=max(0.1, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + "(killed: it took too long)\n"


def attempt(transport, test, timeout):
    deadline = time.monotonic() + timeout
    server_cpu, client_cpu = two_cpus()
    base = ["ucx_perftest", "-p", str(free_port())]
    with started(base, transport.environment("dpu"), server_cpu) as server:
        while not is_listening(int(base[2])):
            if server.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.002)
        if server.poll() is not None:
            raise PairError("the server ended before it listened:\n" + finish(server, deadline))
        with started(base + ["127.0.0.1"] + test, transport.environment("host"),
                     client_cpu) as client:
            client_says = finish(client, deadline)
        # A client that failed may leave a server that waits for ever.
        server_says = finish(server, deadline if client.returncode == 0 else time.monotonic() + 2)
    if client.returncode != 0 or server.returncode != 0:
        raise PairError(f"ucx_perftest {shlex.join(test)} with UCX_TLS={transport.tls} failed: "
                        f"client (host side) exit code {client.returncode}, server (DPU side) "
                        f"{server.returncode}\n-- client:\n{client_says}-- server:\n{server_says}")
    return client_says


def run_pair(transport, test, timeout=120):
    """The client's output. `test`: ucx_perftest's options, as a list."""
    if not shutil.which("ucx_perftest"):
        raise PairError("ucx_perftest is not installed (Debian: ucx-utils; "
                        "scripts/install-deps.sh installs it)")
    for attempts_left in (2, 1, 0):
        try:
            return attempt(transport, test, timeout)
        except PairError as error:
            # Another program may take the port between our choice and the server's bind.
            if "bind()" not in str(error) or not attempts_left:
                raise


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tls", default="comch", help="comch, or transports of UCX's own")
    parser.add_argument("--build-dir", default=ROOT / "build")
    parser.add_argument("--timeout", type=float, default=120, help="seconds")
    parser.add_argument("test", nargs="+", help="ucx_perftest's options")
    options = parser.parse_args()
    enter_private_network()
    try:
        transport = (comch_transport(options.build_dir) if options.tls == "comch"
                     else Transport(options.tls))
        print(run_pair(transport, options.test, options.timeout), end="")
    except PairError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
