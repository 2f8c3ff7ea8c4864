"""A process that is killed while ucx_perftest runs over comch: at random moments, on either side.

The survivor must show a visible error that names comch; nothing may be left that the next user of the
domain does not remove; the next run must be clean. An orderly end shows no error.

(Whether the survivor ends by itself is up to ucx_perftest, which can wait for ever for its own TCP
connection when the other end dies while it starts.)
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], "scripts"))
import perftest_pair  # noqa: E402

ROUNDS = 12    # every second one with traffic before it is the end
SET_UP = 50    # messages; it takes a few
PATIENCE = 10  # seconds for a survivor to notice; it takes far less


def start_pair(library, domain, test, output=None):
    """Output goes to the files <output>.<side>, or is kept for communicate()."""
    transport = perftest_pair.Transport("comch", library)
    port = perftest_pair.free_port()
    processes = {}
    for side, arguments in (("dpu", []), ("host", ["127.0.0.1", *test])):
        env = transport.environment(side)
        env["COMCH_DOMAIN"] = domain
        if side == "host":
            while not perftest_pair.is_listening(port):
                if processes["dpu"].poll() is not None:
                    raise SystemExit("the server ended before it listened")
                time.sleep(0.002)
        sink = open(f"{output}.{side}", "w", encoding="utf-8") if output else subprocess.PIPE
        processes[side] = subprocess.Popen(["ucx_perftest", "-p", str(port), *arguments], env=env,
                                           stdin=subprocess.DEVNULL, stdout=sink,
                                           stderr=subprocess.STDOUT, text=True)
        if output:
            sink.close()
    return processes


def end_of(process):
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + "\n(killed: it did not end)\n"


def words_of_survivor(process, output):
    """What it says until comch reports the death, or ucx_perftest finds its own TCP peer gone before
    there was a connection, or it ends."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        said = pathlib.Path(output).read_text(encoding="utf-8", errors="replace")
        if "comch: " in said:
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    return pathlib.Path(output).read_text(encoding="utf-8", errors="replace")


def traffic_runs(domain):
    """Do both processes count more messages on a connection than UCX needs to set it up? Before that
    ucx_perftest may wait for its own TCP connection, and end without a word when that ends."""
    stat = pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "bin/comch_stat"
    result = subprocess.run([stat, "--json", "--domain", domain], capture_output=True, text=True,
                            check=True)
    busy = [process for process in json.loads(result.stdout)["processes"]
            if any(c["state"] == "connected" and c["tx_messages"] + c["rx_messages"] > SET_UP
                   for c in process["connections"])]
    return len(busy) == 2


def wait_for_traffic(domain, processes):
    deadline = time.monotonic() + PATIENCE
    while not traffic_runs(domain):
        if time.monotonic() > deadline:
            for process in processes.values():
                process.kill()
            raise SystemExit(f"no traffic after {PATIENCE} s")


def run_clean(library, domain):
    processes = start_pair(library, domain, ["-t", "tag_lat", "-s", "8", "-n", "200", "-w", "5"])
    outputs = {side: end_of(process) for side, process in processes.items()}
    for side, process in processes.items():
        if process.returncode != 0 or "ERROR" in outputs[side]:
            raise SystemExit(f"a clean run failed on the {side} side ({process.returncode}):\n"
                             f"{outputs[side][-2000:]}")
    left = sorted(set(os.listdir(domain)) - {"domain.id", "domain.lock"})
    if left:
        raise SystemExit(f"after a clean run the domain's directory holds {left}")


def main():
    perftest_pair.enter_private_network()
    library = pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "lib/ucx/libuct_comch.so"
    seed = int(os.environ.get("COMCH_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed} (COMCH_TEST_SEED repeats it)")
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="comch-kill-") as directory:
        domain = os.path.join(directory, "domain")
        run_clean(library, domain)
        for number in range(ROUNDS):
            size = draw.choice(["8", "3000", "1000000"])
            # No warm-up: between its turns ucx_perftest waits for its own TCP connection without UCX's
            # progress, and for ever when that ends.
            test = ["-t", draw.choice(["tag_lat", "tag_bw"]), "-s", size, "-w", "0",
                    "-n", "100000000"]
            victim = draw.choice(["host", "dpu"])
            delay = draw.choice([draw.uniform(0, 0.1), draw.uniform(0, 1.0)])
            output = os.path.join(directory, f"round{number}")
            processes = start_pair(library, domain, test, output)
            # The moment is random on purpose: every step of set-up and of traffic gets its turn.
            moment = "the start"
            if number % 2 == 1:
                wait_for_traffic(domain, processes)
                moment = "the first traffic"
            time.sleep(delay)
            connected = traffic_runs(domain)
            processes[victim].send_signal(signal.SIGKILL)
            processes[victim].wait()
            survivor = "dpu" if victim == "host" else "host"
            words = words_of_survivor(processes[survivor], f"{output}.{survivor}")
            # Before the two were connected there may be nothing for comch to report.
            if "comch: " in words:
                said = "comch reported it"
            elif not connected:
                said = "it came before there was a connection"
            else:
                raise SystemExit(f"the survivor got no word from comch:\n{words[-2000:]}")
            print(f"ok     {' '.join(test[:4])}: {victim} killed {delay * 1000:.0f} ms after "
                  f"{moment}: {said}", flush=True)
            run_clean(library, domain)
    print(f"{ROUNDS} passed, 0 failed")


if __name__ == "__main__":
    main()
