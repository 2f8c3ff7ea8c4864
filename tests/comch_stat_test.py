"""comch_stat beside real traffic: what it says of messages, bytes, what is in flight and which way the
bytes took is true, while processes come and go, on a terminal and for scripts. Broken files in the
domain disturb nothing.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.environ["COMCH_SOURCE_DIR"], "scripts"))
import perftest_pair  # noqa: E402

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
STAT = str(BUILD / "bin/comch_stat")
PATIENCE = 60  # seconds; far more than anything takes
FOREVER = ["-n", "2000000000", "-w", "10"]
UCT = ["-x", "comch", "-d", "dpu0"]  # the device has one name on both sides


class CheckError(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise CheckError(" ".join(str(word) for word in what))


def wait_for(condition, *what):
    """The first value that is not false."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        expect(time.monotonic() < deadline, "waited in vain for", *what)
        time.sleep(0.02)


def stat(domain, *arguments):
    result = subprocess.run([STAT, "--domain", domain, *arguments], capture_output=True, text=True,
                            check=False, timeout=PATIENCE)
    expect(result.returncode == 0, "comch_stat", *arguments, "failed:", result.stderr)
    return result.stdout


def snapshot(domain, *arguments):
    return json.loads(stat(domain, "--json", *arguments))


@contextlib.contextmanager
def traffic(domain, test, alloc=None):
    """ucx_perftest on both sides, until it is killed: {side: process}."""
    transport = perftest_pair.Transport("comch", BUILD / "lib/ucx/libuct_comch.so")
    cpus = dict(zip(("dpu", "host"), perftest_pair.two_cpus()))
    port = perftest_pair.free_port()
    processes = {}
    try:
        for side, where in (("dpu", []), ("host", ["127.0.0.1", *test])):
            env = transport.environment(side)
            env["COMCH_DOMAIN"] = domain
            if alloc:
                env["UCX_ALLOC_PRIO"] = alloc
            processes[side] = perftest_pair.start(["ucx_perftest", "-p", str(port), *where], env,
                                                  cpus[side])
            while side == "dpu" and not perftest_pair.is_listening(port):
                expect(processes[side].poll() is None, "the server ended before it listened")
                time.sleep(0.002)
        yield processes
        for side, process in processes.items():
            expect(process.poll() is None, side, "ended too early:", process.communicate()[0]
                   if process.poll() is not None else "")
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


def ends(document, processes, at_least=200):
    """The two ends of the host's busiest connection, as (sender, receiver); None if there is none
    that has had so many messages and operations."""
    by_pid = {process["pid"]: process["connections"] for process in document["processes"]}
    ours = by_pid.get(processes["host"].pid, [])
    theirs = by_pid.get(processes["dpu"].pid, [])
    if not ours:
        return None
    sender = max(ours, key=lambda c: c["tx_messages"] + c["tx_one_sided"])
    receivers = [c for c in theirs if c["connection"] == sender["connection"]]
    if not receivers or sender["tx_messages"] + sender["tx_one_sided"] < at_least:
        return None
    expect(len(receivers) == 1, "the connection has several other ends:", receivers)
    return sender, receivers[0]


def running(domain, processes):
    return wait_for(lambda: ends(snapshot(domain), processes), "traffic")


def at_rest(domain, processes):
    """With the receiver stopped and the sender stuck: ucx_perftest's own window is full."""
    before = None
    def same():
        nonlocal before
        now = ends(snapshot(domain), processes)
        last, before = before, now
        return now if last and now and last[0]["tx_messages"] == now[0]["tx_messages"] else None
    return wait_for(same, "the sender to find no more room")


def is_close(value, expected, tolerance):
    return abs(value - expected) <= tolerance


def check_identity(sender, receiver, processes):
    expect(sender["face"] == receiver["face"] == "uct", "face", sender["face"], receiver["face"])
    expect((sender["side"], sender["peer_side"]) == ("host", "dpu"), "sides", sender)
    expect((receiver["side"], receiver["peer_side"]) == ("dpu", "host"), "sides", receiver)
    expect(sender["peer_pid"] == processes["dpu"].pid, "peer", sender)
    expect(receiver["peer_pid"] == processes["host"].pid, "peer", receiver)
    expect(sender["peer"] == "dpu0" and receiver["peer"], "names", sender["peer"], receiver["peer"])
    expect(sender["state"] == receiver["state"] == "connected", "state", sender, receiver)


def check_messages(domain, size, layout, bulk):
    """Active messages of a known size. The receiver is stopped, then both are."""
    test = [*UCT, "-t", "am_bw", "-D", layout, "-s", str(size), *FOREVER]
    with traffic(domain, test) as processes:
        check_identity(*running(domain, processes), processes)
        os.kill(processes["dpu"].pid, signal.SIGSTOP)
        sender, receiver = at_rest(domain, processes)
        missing = sender["tx_messages"] - receiver["rx_messages"]
        expect(0 < sender["in_flight"] == missing < 65536, "in flight", sender["in_flight"], missing)
        # A message may be counted whose bytes are not, when a process is stopped just there.
        for name, end in (("tx", sender), ("rx", receiver)):
            expect(is_close(end[f"{name}_bytes"], size * end[f"{name}_messages"],
                            size + end[f"{name}_bytes"] / 1000), name, "bytes per message:", end)
        if bulk:
            expect(sender["bulk_path"] == receiver["bulk_path"] == "bulk_ring", "path", sender)
            for name, end in (("tx", sender), ("rx", receiver)):
                expect(is_close(end[f"{name}_bulk_ring_bytes"], end[f"{name}_bytes"],
                                size + end[f"{name}_bytes"] / 100), "bulk bytes", end)
        else:
            expect(sender["bulk_path"] is None and receiver["bulk_path"] is None, "path", sender)
        expect(sender["tx_mapped_bytes"] == sender["tx_one_sided"] == 0, "not one-sided:", sender)
        os.kill(processes["host"].pid, signal.SIGSTOP)
        os.kill(processes["dpu"].pid, signal.SIGCONT)
        wait_for(lambda: ends(snapshot(domain), processes)[0]["in_flight"] == 0,
                 "the receiver to take out what is in flight")
        os.kill(processes["host"].pid, signal.SIGCONT)
        wait_for(lambda: ends(snapshot(domain), processes)[0]["tx_messages"] >
                 sender["tx_messages"], "traffic to go on")


def check_one_sided(domain, alloc, path):
    test = ["-t", "ucp_put_bw", "-s", str(1 << 20), *FOREVER]
    with traffic(domain, test, alloc) as processes:
        def moved():
            # ucx_perftest's responder serves what comes by ring about once in a millisecond.
            pair = ends(snapshot(domain), processes, 200 if path == "mapped" else 3)
            return pair if pair and pair[1]["state"] == "connected" else None

        def copied_in_place():
            pair = moved()
            return pair if pair and pair[0]["tx_mapped_bytes"] > 0.5 * (pair[0]["tx_one_sided"] << 20) else None

        sender, receiver = wait_for(moved, "puts")
        if path == "mapped":
            # The first go by ring, or by the kernel, until the memory is mapped.
            sender, receiver = wait_for(copied_in_place, "most of it to be mapped")
            moved_bytes = (sender["tx_mapped_bytes"] + sender["tx_bulk_ring_bytes"] +
                           sender["tx_process_vm_bytes"])
            expect(is_close(moved_bytes, sender["tx_one_sided"] << 20,
                            0.02 * moved_bytes + (2 << 20)), "bytes per put:", sender)
            expect(sender["bulk_path"] == path, "path", sender)
        else:
            # The first go by ring, until its owner is found to be busy with something else.
            expect(sender["tx_mapped_bytes"] == 0, "nothing mapped:", sender)
            # (Its owner may have executed none of them: they can all be taken back.)
            expect(receiver["rx_bytes"] <= receiver["rx_bulk_ring_bytes"] <=
                   sender["tx_bulk_ring_bytes"], "the receiver's work:", sender, receiver)
            seen = [sender]

            def copied_by_kernel():
                pair = moved()
                seen[0] = pair[0] if pair else None
                return pair and pair[0]["bulk_path"] == path

            wait_for(copied_by_kernel, "most to be copied by the kernel:", seen)
            sender = moved()[0]
            expect(sender["tx_process_vm_bytes"] > sender["tx_bulk_ring_bytes"], "bytes:", sender)


def check_long_messages(domain):
    """From memory that comch allocated: UCP registers them one by one, and yet they are mapped once."""
    with traffic(domain, ["-t", "tag_bw", "-s", str(1 << 20), *FOREVER], "md:comch") as processes:
        def mapped():
            fetching = max((c for p in snapshot(domain)["processes"] for c in p["connections"]
                            if p["pid"] == processes["dpu"].pid),
                           key=lambda c: c["tx_one_sided"], default=None)
            # All but those of the beginning, when the mapping was asked for.
            return fetching and fetching["tx_mapped_bytes"] > max(200, 0.5 * fetching["tx_one_sided"]) * (1 << 20)
        wait_for(mapped, "messages to be taken from where they lie")


def check_channels(domain):
    """The core's own: a control connection and, under it, a channel of a producer and a consumer."""
    program = subprocess.Popen([BUILD / "bin/comch_perftest", "--both-sides", "-m", "one-way", "-s",
                                "64", "-d", "600s", "--no-progress", "--domain", domain],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        def busy():
            document = snapshot(domain, "--face", "channel")
            found = [(process, c) for process in document["processes"]
                     for c in process["connections"] if c["kind"] == "channel"]
            most = max((c["tx_messages"] for _, c in found), default=0)
            return found if len(found) == 2 and most > 1000 else None
        found = wait_for(busy, "a channel")
        (one_process, one), (other_process, other) = found
        expect(one["connection"] == other["connection"] is not None, "one channel:", one, other)
        expect({one["side"], other["side"]} == {"host", "dpu"}, "sides", one, other)
        expect(one["peer_side"] == other["side"] and other["peer_side"] == one["side"], "sides", one)
        expect(one["peer_pid"] == other_process["pid"] and other["peer_pid"] == one_process["pid"],
               "peers", one, other)
        expect(one["peer"] and other["peer"], "names", one, other)
        for c in (one, other):
            expect(isinstance(c["in_flight"], int), "in flight", c)
        document = snapshot(domain)
        expect(document["totals"]["connections"] == 1, "both ends and the channel are of one", document)
        expect(any(c["kind"] == "connection" and c["face"] == "channel"
                   for p in document["processes"] for c in p["connections"]), "the connection itself")
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def check_filters(domain):
    with traffic(domain, [*UCT, "-t", "am_bw", "-D", "short", "-s", "8", *FOREVER]) as processes:
        running(domain, processes)
        pid = processes["host"].pid
        only = snapshot(domain, "--pid", str(pid))
        expect([p["pid"] for p in only["processes"]] == [pid], "--pid", only)
        expect(any(c["in_flight"] is not None for c in only["processes"][0]["connections"]),
               "the other end counts although it is not shown:", only)
        both = snapshot(domain, "--pid", str(pid), "--pid", str(processes["dpu"].pid))
        expect(len(both["processes"]) == both["totals"]["processes"] == 2, "--pid twice", both)
        for face in ("channel", "memory"):
            none = snapshot(domain, "--face", face)
            expect(none["processes"] == [] and none["totals"]["tx_bytes"] == 0, "--face", face, none)
        expect(len(snapshot(domain, "--face", "uct")["processes"]) == 2, "--face uct")
        once = stat(domain)
        expect(str(pid) in once and "total" in once and "inline" in once, once)
        frames = stat(domain, "--interval", "0.1", "--count", "3")
        expect(frames.count("out/s") == 3 and "\033" not in frames, "frames", frames)
        expect(all(len(line) <= 100 or "domain" in line for line in frames.splitlines()), frames)


def check_watching(domain):
    """One document a line, while processes come and go."""
    watcher = subprocess.Popen([STAT, "--domain", domain, "--json", "--interval", "0.1"],
                               stdout=subprocess.PIPE, text=True)
    try:
        def documents():
            for line in watcher.stdout:
                yield json.loads(line)
            raise CheckError("comch_stat ended")
        stream = documents()
        expect(next(stream)["processes"] == [], "nobody is there yet")
        with traffic(domain, [*UCT, "-t", "am_bw", "-D", "short", "-s", "8", *FOREVER]) as processes:
            deadline = time.monotonic() + PATIENCE
            last = None
            for document in stream:
                expect(time.monotonic() < deadline, "no traffic seen")
                now = ends(document, processes)
                if now and last and now[0]["tx_messages"] > last[0]["tx_messages"]:
                    break
                last = now
            sender, receiver = now
            gained = sender["tx_messages"] - last[0]["tx_messages"]
            rate = sender["rates"]["tx_messages"] * document["seconds"]
            expect(gained > 0 and is_close(rate, gained, 1e-6 * gained + 0.5), "rate", rate, gained)
            expect(receiver["rates"]["rx_messages"] > 0, "rate", receiver)
            expect(is_close(document["totals"]["rates"]["tx_bytes"] * document["seconds"],
                            sum(c["rates"]["tx_bytes"] for p in document["processes"]
                                for c in p["connections"]) * document["seconds"], 1), "totals")
        deadline = time.monotonic() + PATIENCE
        for document in stream: # they were killed
            expect(time.monotonic() < deadline, "the dead are still shown")
            if not document["processes"]:
                break
        watcher.send_signal(signal.SIGINT)
        watcher.stdout.read()
        expect(watcher.wait(PATIENCE) == 0, "exit code", watcher.returncode)
    finally:
        watcher.kill()
        watcher.wait()


def check_terminal(domain):
    """As top, on a terminal of 100 columns; Ctrl-C leaves it as it was."""
    with traffic(domain, [*UCT, "-t", "am_bw", "-D", "short", "-s", "8", *FOREVER]) as processes:
        running(domain, processes)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(STAT, [STAT, "--domain", domain, "--interval", "0.1"])
        try:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            settings = termios.tcgetattr(terminal)
            said = b""
            def read():
                nonlocal said
                if select.select([terminal], [], [], 0.1)[0]:
                    said += os.read(terminal, 65536)
            deadline = time.monotonic() + PATIENCE
            while said.count(b"out/s") < 3:
                expect(time.monotonic() < deadline, "frames", said)
                read()
            expect(b"\033[?" not in said, "modes that would have to be changed back", said)
            expect(str(processes["host"].pid).encode() in said, "the table", said)
            expect(b"\033[H" in said and b"\033[J" in said, "redrawn in place", said)
            os.write(terminal, b"\x03")
            ended = 0
            while not ended:
                expect(time.monotonic() < deadline, "Ctrl-C does not end it")
                with contextlib.suppress(OSError):
                    read()
                ended, status = os.waitpid(pid, os.WNOHANG)
            expect(os.waitstatus_to_exitcode(status) == 0, "exit status", status)
            with contextlib.suppress(OSError):
                while select.select([terminal], [], [], 0)[0]:
                    said += os.read(terminal, 65536)
            expect(said.endswith(b"\n"), "the prompt begins a line", said[-50:])
            expect(termios.tcgetattr(terminal) == settings, "settings of the terminal")
        finally:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(terminal)


def check_broken_files(domain):
    """Files that no process of comch would write, some of them with a lock as if their process lived."""
    os.makedirs(domain, mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as undo:
        def put(number, content, alive):
            suffix = f"{number:016x}"
            names = [f"counters.{suffix}"] + ([f"alive.{suffix}"] if alive else [])
            for name in names:
                path = os.path.join(domain, name)
                with open(path, "wb") as file:
                    file.write(content if name.startswith("counters") else b"")
                undo.callback(lambda path=path: os.path.exists(path) and os.unlink(path))
            if alive:
                lock = undo.enter_context(open(os.path.join(domain, names[1]), "r+b"))
                fcntl.lockf(lock, fcntl.LOCK_EX)
        with traffic(domain, [*UCT, "-t", "am_bw", "-D", "short", "-s", "8", *FOREVER]) as processes:
            running(domain, processes)
            good = next(pathlib.Path(domain).glob("counters.*")).read_bytes()
            def forged(number, change=lambda data: None):
                data = bytearray(good)
                struct.pack_into("<Q", data, 24, number)  # process_id
                data[40:72] = b"\033[2J\xff\xfe".ljust(32, b"!")  # program, without an end
                change(data)
                return bytes(data)
            def garbage(data):
                data[448:] = os.urandom(len(data) - 448)  # the slots
            def huge(data):
                struct.pack_into("<I", data, 12, 0xffffffff)  # slot_count
            put(1, b"", True)
            put(2, os.urandom(1 << 20), True)
            put(3, forged(3)[:500], True)
            put(4, forged(4, garbage), True)
            put(5, forged(5, huge), True)  # can be read, and its numbers pair three ends
            put(6, forged(6), False)
            put(7, forged(1234567), True)
            document = snapshot(domain)
            pids = {process["process_id"] for process in document["processes"]}
            expect(f"{5:016x}" in pids and len(pids) == 3, "processes", pids)
            both = [p for p in document["processes"]
                    if p["pid"] in (processes["host"].pid, processes["dpu"].pid)
                    and p["process_id"] != f"{5:016x}"]
            expect(len(both) == 2, "the two that run", pids)
            text = stat(domain)
            expect("\033" not in text and "?[2J" in text, "names are harmless", text)
            frames = stat(domain, "--interval", "0.1", "--count", "2")
            expect(frames.count("total") == 2, frames)
        # And nothing keeps others from running in that domain.
        with traffic(domain, [*UCT, "-t", "am_bw", "-D", "short", "-s", "8", *FOREVER]) as processes:
            running(domain, processes)


def check_intervals(domain):
    for interval in ("nan", "-1", "0.05", "1e9", "soon"):
        result = subprocess.run([STAT, "--domain", domain, "--interval", interval], capture_output=True,
                                text=True, check=False, timeout=PATIENCE)
        expect(result.returncode > 100 and "0.1 to 3600" in result.stderr, "--interval", interval, result)


def check_missing(domain):
    os.rmdir(domain)
    result = subprocess.run([STAT, "--domain", domain], capture_output=True, text=True, check=False,
                            timeout=PATIENCE)
    expect(result.returncode == 1 and "no such domain" in result.stderr and domain in result.stderr
           and result.stdout == "", "a domain that is not there:", result)
    expect(not os.path.exists(domain), "comch_stat made the domain", domain)


CHECKS = [
    ("short messages", lambda domain: check_messages(domain, 8, "short", bulk=False)),
    ("messages by the bulk ring", lambda domain: check_messages(domain, 8192, "bcopy", bulk=True)),
    ("puts to mapped memory", lambda domain: check_one_sided(domain, "md:comch", "mapped")),
    ("puts to heap memory", lambda domain: check_one_sided(domain, "heap", "process_vm")),
    ("long messages from mapped memory", check_long_messages),
    ("channels", check_channels),
    ("filters and frames", check_filters),
    ("watching", check_watching),
    ("the terminal", check_terminal),
    ("broken files", check_broken_files),
    ("intervals that are none", check_intervals),
    ("a domain that is not there", check_missing),
]


def main():
    perftest_pair.enter_private_network()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="comch-stat-") as directory:
        for number, (name, check) in enumerate(CHECKS):
            start = time.monotonic()
            try:
                domain = os.path.join(directory, f"domain{number}")
                os.mkdir(domain, 0o700)
                check(domain)
                print(f"ok     {name}: {time.monotonic() - start:.1f} s", flush=True)
            except (CheckError, OSError, subprocess.SubprocessError, ValueError) as error:
                failed += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
