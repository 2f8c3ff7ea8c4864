"""In the two-machine lab, UCX chooses comch between the sides by itself.

The two processes of ucx_perftest are in different network, PID, IPC, UTS and mount namespaces, with a
veth pair for start-up, and see the same domain directory. Nothing names a transport; the proof is in
comch's own counters. With UCX_TLS=comch it must run as well.
"""
import json
import os
import random
import subprocess
import sys
import time

import lab

BUILD = os.environ["COMCH_BUILD_DIR"]
LIBRARY = f"{BUILD}/lib/ucx/libuct_comch.so"
TIMEOUT = 60

# And the payload that each moves from the host to the DPU.
TESTS = [
    (["-t", "tag_bw", "-s", "8", "-n", "1000000", "-w", "100"], 8_000_000),
    (["-t", "tag_bw", "-s", "8192", "-n", "200000", "-w", "100"], 1_600_000_000),
    (["-t", "tag_bw", "-s", "1000000", "-n", "2000", "-w", "10"], 2_000_000_000),
    (["-t", "tag_lat", "-s", "4096", "-n", "20000", "-w", "100", "-e"], 80_000_000),
    (["-t", "stream_bw", "-s", "4096", "-n", "400000", "-w", "100"], 1_600_000_000),
]


def start(the_lab, side, domain, settings, arguments, output):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("UCX_", "COMCH_SIDE", "COMCH_DEVICE"))}
    environment.update(LD_PRELOAD=LIBRARY, COMCH_DOMAIN=domain, UCX_WARN_UNUSED_ENV_VARS="n",
                       **settings)
    # Not into the tools that make the namespaces, only into ucx_perftest.
    words = ["env"] + [f"{name}={environment.pop(name)}"
                       for name in ("LD_PRELOAD", "COMCH_DOMAIN")]
    return subprocess.Popen(the_lab.command(side, words + ["ucx_perftest", *arguments]),
                            env=environment, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT)


def moved(domain):
    """Bytes that the connections between the sides have carried so far, by whatever path."""
    result = subprocess.run([f"{BUILD}/bin/comch_stat", "--json", "--domain", domain],
                            capture_output=True, text=True, check=True)
    total = 0
    for process in json.loads(result.stdout)["processes"]:
        for connection in process["connections"]:
            if connection["face"] == "uct" and connection["side"] != connection["peer_side"]:
                total += connection["tx_bytes"] + connection["tx_mapped_bytes"]
    return total


def is_listening(the_lab, port):
    result = subprocess.run(["ip", "netns", "exec", the_lab.names["dpu"], "ss", "-Hltn",
                             f"sport = :{port}"], capture_output=True, text=True, check=True)
    return bool(result.stdout.strip())


def run(the_lab, directory, settings, test, payload):
    domain = os.path.join(directory, "domain")
    port = str(random.randint(20000, 50000))  # the namespace is ours alone
    processes = {}
    outputs = {}
    deadline = time.monotonic() + TIMEOUT
    most = 0
    try:
        for side, arguments in (("dpu", []), ("host", [lab.DPU_ADDRESS, *test])):
            path = os.path.join(directory, side)
            with open(path, "w", encoding="utf-8") as output:
                processes[side] = start(the_lab, side, domain, settings, ["-p", port, *arguments],
                                        output)
            outputs[side] = path
            while side == "dpu" and not is_listening(the_lab, port):
                if processes[side].poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the server does not listen:\n{open(path).read()}")
                time.sleep(0.01)
        while any(process.poll() is None for process in processes.values()):
            if time.monotonic() > deadline:
                break
            # The counters are there as long as the processes: a glance at them, all the time.
            if os.path.isdir(domain):
                most = max(most, moved(domain))
            time.sleep(0.01)
    finally:
        for process in processes.values():
            process.kill()
    said = {side: open(path, encoding="utf-8").read() for side, path in outputs.items()}
    text = "".join(f"-- {side}, exit code {processes[side].wait()}:\n{words[-3000:]}"
                   for side, words in said.items())
    name = f"{' '.join(test)}, {settings or 'UCX chooses'}"
    if any(process.returncode != 0 for process in processes.values()):
        raise SystemExit(f"{name}: failed\n{text}")
    if any(word in text for word in ("ERROR", "WARN", "FATAL")):
        raise SystemExit(f"{name}: complains\n{text}")
    # The last glance came some time before the end, on a fast machine long before; but what starts
    # up is a few thousand bytes, and traffic by TCP would show no more than that.
    if most < payload // 100:
        raise SystemExit(f"{name}: of {payload} bytes only {most} went over comch\n{text}")
    left = sorted(set(os.listdir(domain)) - {"domain.id", "domain.lock"})
    if left:
        raise SystemExit(f"{name}: left {left} in the domain's directory")
    print(f"ok     {name}: {most} bytes seen in comch's counters", flush=True)


def main():
    try:
        the_lab = lab.Lab().__enter__()
    except (RuntimeError, FileNotFoundError) as error:
        raise SystemExit(f"the two-machine lab cannot be made: {error}")
    try:
        with lab.temporary_directory() as directory:
            for settings in ({}, {"UCX_TLS": "comch"}):
                for test, payload in TESTS:
                    run(the_lab, directory, settings, test, payload)
    finally:
        the_lab.__exit__(None, None, None)
    print(f"{2 * len(TESTS)} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
