"""comch_perftest as a user meets it: every path and mode with every byte verified, its three formats,
two processes and --both-sides, wrong command lines, and peers that die, stop, or are not there.
"""
import contextlib
import csv
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import time
import typing
import unittest

PROGRAM = str(pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "bin/comch_perftest")
STAT = str(pathlib.Path(os.environ["COMCH_BUILD_DIR"]) / "bin/comch_stat")
PATIENCE = 60  # seconds for anything that ends by itself; it takes far less
LATENCIES = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"]
SIZES = {"fast": [1, 8, 57, 1000, 4089, 32769, 100000, 1000001], "control": [1, 8, 57, 1000, 4080]}


class Pair(typing.NamedTuple):
    kind: list
    name: str
    server: subprocess.Popen
    client: subprocess.Popen


class Perftest(unittest.TestCase):
    COUNT = 200  # messages where all sizes are tried
    STANDSTILL = 5  # seconds that a client waits for a server that stands still
    MANY = 5000  # enough to fill what can be filled
    SECONDS_OF = 100000  # round trips, asleep in between, that take more than one

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.domain = os.path.join(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="comch-perftest-")), "domain")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("COMCH_")}
        self.environment["COMCH_DOMAIN"] = self.domain

    def run_program(self, *arguments, status=0, **environment):
        result = subprocess.run([PROGRAM, *arguments], env=self.environment | environment,
                                capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(result.returncode, status,
                         f"{arguments}: {result.stdout}\n{result.stderr}")
        return result

    def measure(self, *arguments):
        return json.loads(self.run_program(*arguments, "--format", "json").stdout)

    def start(self, *arguments):
        process = subprocess.Popen([PROGRAM, *arguments], env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.addCleanup(end)
        return process

    def start_server(self, *arguments):
        server = self.start("--server", *arguments)
        self.assertIn("serving the clients of host_pf0", server.stderr.readline())
        return server

    def start_long_client(self, *arguments):
        """A client in the middle of a measurement that would take an hour."""
        client, = self.start_long_clients(arguments)
        return client

    def start_long_clients(self, *clients):
        """One for each list of arguments."""
        clients = [self.start("--duration", "3600", "--progress", *arguments) for arguments in clients]
        for client in clients:
            self.assertIn("messages", client.stderr.readline())
        return clients

    def pairs(self, *arguments, server=()):
        """A server and a long client of each kind, all at once, since each takes a while to begin."""
        kinds = list(self.kinds())
        names = [f"server{number}" for number in range(len(kinds))]
        servers = [self.start_server("--name", name, *server) for name in names]
        clients = self.start_long_clients(*(("--name", name, *arguments, *kind)
                                            for name, kind in zip(names, kinds)))
        return list(map(Pair, kinds, names, servers, clients))

    def words_at_the_end(self, process, status=1):
        """What it says when it ends, which must be soon."""
        try:
            _, words = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail(f"{process.args} hangs")
        self.assertEqual(process.returncode, status, words)
        return words

    def assert_nothing_is_left(self):
        left = set(os.listdir(self.domain)) - {"domain.id", "domain.lock"}
        self.assertEqual(left, set())

    # ---- measuring

    def check_rows(self, report, path, mode, count):
        self.assertEqual((report["path"], report["mode"]), (path, mode))
        self.assertTrue(report["verified"])
        self.assertEqual([row["bytes"] for row in report["results"]], SIZES[path])
        for row in report["results"]:
            with self.subTest(path=path, mode=mode, size=row["bytes"]):
                self.assertEqual(row["wrong"], 0)
                self.assertGreater(row["seconds"], 0)
                self.assertAlmostEqual(row["messages_per_second"] * row["seconds"], row["messages"],
                                       delta=row["messages"] * 1e-6)
                self.assertAlmostEqual(row["bytes_per_second"],
                                       row["messages_per_second"] * row["bytes"],
                                       delta=row["bytes_per_second"] * 1e-6)
                if mode == "two-way":
                    self.assertEqual(row["sent_messages"], count)
                    self.assertEqual(row["messages"], count + row["received_messages"])
                else:
                    self.assertEqual(row["messages"], count)
                if mode == "ping-pong":
                    latency = row["latency_us"]
                    self.assertGreater(latency["min"], 0)
                    self.assertEqual([latency[name] for name in LATENCIES],
                                     sorted(latency[name] for name in LATENCIES))
                    self.assertLessEqual(latency["min"], latency["mean"])
                    self.assertLessEqual(latency["mean"], latency["max"])
                else:
                    self.assertNotIn("latency_us", row)

    def test_every_path_and_mode_verified(self):
        for path in ("fast", "control"):
            for mode in ("ping-pong", "one-way", "two-way"):
                for more in ([], ["--sleep"]):
                    report = self.measure("--both-sides", "--path", path, "--mode", mode, "--sizes",
                                          ",".join(map(str, SIZES[path])), "--count", str(self.COUNT),
                                          "--verify", *more)
                    self.check_rows(report, path, mode, self.COUNT)
                    self.assertNotEqual(report["client"]["pid"], report["server"]["pid"])
        self.assert_nothing_is_left()

    def test_threads(self):
        for mode in ("ping-pong", "one-way", "two-way"):
            report = self.measure("-b", "-m", mode, "-t", "3", "-s",
                                  ",".join(map(str, SIZES["fast"])), "-n", "50", "-v")
            self.check_rows(report, "fast", mode, 150)
            self.assertEqual(report["threads"], 3)

    def test_windows_and_buffers(self):
        for window in (1, 2, 1000, 8192):
            row = self.measure("-b", "-m", "two-way", "-n", str(self.MANY), "-W", str(window),
                               "-v")["results"][0]
            self.assertEqual((row["window"], row["wrong"]), (window, 0))
            row = self.measure("-b", "-p", "control", "-m", "two-way", "-n", str(self.MANY), "-W",
                               str(window), "-v")["results"][0]
            self.assertEqual((row["window"], row["wrong"]), (window, 0))
        row = self.measure("-b", "-m", "one-way", "-s", "4K", "-n", "1000", "-B", "1")["results"][0]
        self.assertEqual((row["buffers"], row["messages"]), (1, 1000))

    def test_a_warm_up_that_takes_a_time_is_none_of_the_messages(self):
        for path in ("fast", "control"):
            for mode in ("one-way", "two-way"):
                with self.subTest(path=path, mode=mode):
                    row = self.measure("-b", "-p", path, "-m", mode, "-W", "1000", "-w", "50ms", "-n",
                                       "10")["results"][0]
                    self.assertEqual(row["messages"] - row.get("received_messages", 0), 10)

    def test_durations_and_ranges(self):
        report = self.measure("-b", "-s", "8:64", "-d", "100ms", "-w", "10ms")
        self.assertEqual([row["bytes"] for row in report["results"]], [8, 16, 32, 64])
        self.assertEqual(report["goal"], {"seconds": 0.1})
        self.assertEqual(report["warm_up"], {"seconds": 0.01})
        for row in report["results"]:
            self.assertGreaterEqual(row["seconds"], 0.1)
            self.assertGreater(row["messages"], 0)
        report = self.measure("-b", "-n", "100", "-w", "0")
        self.assertEqual(report["warm_up"], {"messages": 0})

    def test_cpus(self):
        cpu = str(min(os.sched_getaffinity(0)))
        report = self.measure("-b", "-c", cpu, "-C", cpu, "-n", "200")
        self.assertEqual(report["client"]["cpus"], [int(cpu)])
        self.assertEqual(report["results"][0]["messages"], 200)
        self.measure("-b", "-p", "control", "-c", cpu, "-C", cpu, "-n", "200")
        for path in ("fast", "control"):
            for side, option in (("the server says: ", "-C"), ("", "-c")):
                words = self.run_program("-b", "-p", path, option, "4095", status=1).stderr
                self.assertIn(f"comch_perftest: {side}cannot run on CPU 4095", words)

    # ---- output

    def test_table(self):
        lines = self.run_program("-b", "-s", "8,16", "-n", "100").stdout.splitlines()
        self.assertIn("ping-pong", lines[0])
        titles, *rows = [line for line in lines if not line.startswith("#")]
        self.assertIn("99.99%", titles)
        self.assertEqual([row.split()[:2] for row in rows], [["8", "100"], ["16", "100"]])
        self.assertEqual({len(line) for line in (titles, *rows)}, {len(titles)})

    def test_csv(self):
        text = self.run_program("-b", "-m", "one-way", "-s", "8,16", "-n", "100", "-f", "csv").stdout
        rows = list(csv.DictReader(text.splitlines()))
        self.assertEqual([row["bytes"] for row in rows], ["8", "16"])
        self.assertEqual({row["messages"] for row in rows}, {"100"})
        self.assertEqual({row["p50_us"] for row in rows}, {""})
        self.assertGreater(float(rows[0]["messages_per_second"]), 0)
        text = self.run_program("-b", "-n", "100", "-f", "csv").stdout
        self.assertGreater(float(next(csv.DictReader(text.splitlines()))["p99_99_us"]), 0)

    def test_progress_only_when_asked_for(self):
        result = self.run_program("-b", "-d", "1.5s", "--progress")
        self.assertRegex(result.stderr, r"\[1/1\] 8 bytes: \d+ %, \d+ messages, \d+/s")
        self.assertEqual(self.run_program("-b", "-d", "1.5s").stderr, "")

    def test_progress_counts_what_the_goal_counts(self):
        # Asleep in between, so that it takes seconds; each line is about one of the two phases.
        line = re.compile(r"\[1/1\] 8 bytes: (warm-up )?(\d+) %, (\d+) messages, \d+/s")
        for path in ("fast", "control"):
            with self.subTest(path=path):
                said = self.run_program("-b", "-p", path, "--sleep", "-n", str(self.SECONDS_OF), "-w", "2s",
                                        "--progress").stderr
                lines = [line.fullmatch(text) for text in said.splitlines()]
                self.assertTrue(all(lines), said)
                self.assertTrue(lines[0][1], said)
                measuring = [found for found in lines if not found[1]]
                for _, percent, messages in map(re.Match.groups, measuring):
                    self.assertLessEqual(int(messages), self.SECONDS_OF, said)
                    self.assertAlmostEqual(int(percent), 100 * int(messages) / self.SECONDS_OF, delta=1,
                                           msg=said)

    def test_help(self):
        text = self.run_program("--help").stdout
        for word in ("--both-sides", "Examples:", "Columns of ping-pong"):
            self.assertIn(word, text)

    def test_a_full_disk_is_no_success(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([PROGRAM, "-b", "-n", "10", "-f", "json"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, env=self.environment,
                                    timeout=PATIENCE, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write to standard output: No space left", result.stderr)

    # ---- two processes

    def test_server_and_client(self):
        for path in ("fast", "control"):
            server = self.start_server()
            report = self.measure("--path", path, "-n", "100", "-s", "8,100", "-v")
            self.assertEqual(report["server"]["pid"], server.pid)
            self.assertIn("2 rounds", self.words_at_the_end(server, status=0))
        self.assert_nothing_is_left()

    def test_a_persistent_server_goes_on(self):
        server = self.start_server("--persistent", "--name", "other")
        for path in ("fast", "control", "fast"):
            self.measure("--name", "other", "--path", path, "-n", "100", "-v")
            self.assertIn("served a client", server.stderr.readline())
        # Clients that fail do not end it.
        words = self.run_program("--name", "other", "-C", "4095", status=1).stderr
        self.assertIn("cannot run on CPU 4095", words)
        self.assertIn("cannot run on CPU 4095", server.stderr.readline())
        client = self.start_long_client("--name", "other")
        words = self.run_program("--name", "other", status=1).stderr
        self.assertIn("busy with another client", words)
        client.kill()
        client.wait()
        self.assertIn("has died", server.stderr.readline())
        self.measure("--name", "other", "-n", "100", "-v")
        self.assertIn("served a client", server.stderr.readline())
        server.send_signal(signal.SIGTERM)
        self.words_at_the_end(server, status=0)
        self.assert_nothing_is_left()

    def test_representors(self):
        server = self.start_server("--name", "a")
        self.run_program("--name", "a", "--device", "host_pf0vf0", "-n", "10", status=1)
        server.terminate()
        self.words_at_the_end(server)
        server = self.start("--server", "--representor", "host_pf0vf0")
        self.assertIn("host_pf0vf0", server.stderr.readline())
        report = self.measure("--device", "host_pf0vf0", "-n", "10")
        self.assertEqual(report["client"]["device"], "host_pf0vf0")
        report = self.measure("-b", "--device", "host_pf0vf0", "-n", "10")
        self.assertEqual(report["client"]["device"], "host_pf0vf0")

    # ---- what can go wrong

    def test_wrong_command_lines(self):
        for arguments in (["--mode", "sideways"], ["-s", "x"], ["-p", "control", "-s", "4081"],
                          ["--threads", "0"], ["-p", "control", "-t", "2"], ["--window", "3"],
                          ["--server", "-s", "8"], ["--server", "--both-sides"], ["--persistent"],
                          ["--count", "1", "--duration", "1"], ["--no-such"], ["word"]):
            result = self.run_program(*arguments, status=105 if arguments[0] not in
                                      ("--no-such", "word") else 109)
            self.assertEqual(result.stdout, "")
            self.assertNotEqual(result.stderr, "")

    def test_the_wrong_side(self):
        words = self.run_program("--server", status=1, COMCH_SIDE="host").stderr
        self.assertIn("a server runs on the dpu side", words)
        words = self.run_program(status=1, COMCH_SIDE="dpu").stderr
        self.assertIn("a client runs on the host side", words)
        words = self.run_program("--device", "dpu0", status=1).stderr
        self.assertIn("dpu0", words)
        for side in ("host", "dpu"):
            self.run_program("-b", "-n", "10", COMCH_SIDE=side)

    def test_nobody_there(self):
        words = self.run_program(status=1).stderr
        self.assertIn("no server 'comch_perftest' for host_pf0", words)
        self.assertIn("--both-sides", words)

    def test_a_name_that_is_taken(self):
        self.start_server()
        words = self.run_program("--server", status=1).stderr
        self.assertIn("comch_perftest", words)

    def test_too_much_memory(self):
        words = self.run_program("-b", "-m", "one-way", "-s", "2G", "-W", "4096", status=1).stderr
        self.assertIn("more than a quarter", words)

    def test_the_server_dies(self):
        for kind, _, server, client in self.pairs():
            with self.subTest(kind=kind):
                server.kill()
                words = self.words_at_the_end(client)
                self.assertRegex(words, "comch_perftest: .*(died|gone)")

    def test_the_client_dies(self):
        for kind, _, server, client in self.pairs():
            with self.subTest(kind=kind):
                client.kill()
                self.assertIn("comch_perftest: the client has died", self.words_at_the_end(server))

    def test_the_client_is_interrupted(self):
        for kind, _, server, client in self.pairs():
            with self.subTest(kind=kind):
                client.send_signal(signal.SIGINT)
                self.assertIn("interrupted", self.words_at_the_end(client))
                self.assertIn("the client has left", self.words_at_the_end(server))
        self.assert_nothing_is_left()

    def test_an_interruption_ends_the_json(self):
        self.start_server()
        client = self.start("--duration", "3600", "--progress", "-s", "8,64", "-f", "json")
        self.assertIn("messages", client.stderr.readline())
        client.send_signal(signal.SIGINT)
        report, words = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 1, words)
        report = json.loads(report)
        self.assertEqual(report["results"], [])
        self.assertFalse(report["complete"])
        self.assertTrue(self.measure("-b", "-n", "10")["complete"])

    def test_the_server_is_interrupted(self):
        for kind, _, server, client in self.pairs():
            with self.subTest(kind=kind):
                server.send_signal(signal.SIGTERM)
                self.assertIn("the server says: interrupted", self.words_at_the_end(client))
                self.words_at_the_end(server)
        self.assert_nothing_is_left()

    def test_a_peer_that_stands_still(self):
        pairs = self.pairs("--timeout", f"{self.STANDSTILL}s")
        for pair in pairs:
            pair.server.send_signal(signal.SIGSTOP)
        for kind, _, server, client in pairs:
            with self.subTest(kind=kind):
                self.assertIn(f"nothing has moved for {self.STANDSTILL} s",
                              self.words_at_the_end(client))
                server.send_signal(signal.SIGCONT)
                self.words_at_the_end(server)

    def test_a_server_that_stands_still_is_connected_to_for_as_long_as_timeout_says(self):
        server = self.start_server()
        server.send_signal(signal.SIGSTOP)
        self.assertIn("nothing has moved for 11 s", self.run_program("--timeout", "11s", status=1).stderr)

    def test_the_next_client_may_come_before_the_end_of_the_last_is_known(self):
        for kind, name, server, client in self.pairs(server=["--persistent"]):
            with self.subTest(kind=kind):
                server.send_signal(signal.SIGSTOP)
                client.kill()
                client.wait()
                following = self.start("--name", name, "-n", "100", "-v")
                self.wait_until_connecting(following)
                server.send_signal(signal.SIGCONT)
                _, words = following.communicate(timeout=PATIENCE)
                # Which of the two the server notices first is not said.
                if following.returncode != 0:
                    self.assertIn("busy with another client", words)
                self.assertIn("has died", server.stderr.readline())
                if following.returncode == 0:
                    self.assertIn("served a client: 1 rounds", server.stderr.readline())
                self.measure("--name", name, "-n", "100", "-v")
                self.assertIn("served a client: 1 rounds", server.stderr.readline())
                server.terminate()
                self.words_at_the_end(server, status=0)

    def wait_until_connecting(self, client):
        deadline = time.monotonic() + PATIENCE
        states = set()
        while "connecting" not in states:
            self.assertLess(time.monotonic(), deadline, f"it does not connect: {states}")
            seen = json.loads(subprocess.run([STAT, "--json"], env=self.environment, check=True,
                                             stdout=subprocess.PIPE, timeout=PATIENCE).stdout)
            states = {connection["state"] for process in seen["processes"] if process["pid"] == client.pid
                      for connection in process["connections"]}

    def test_the_other_half_ends_with_the_client(self):
        client = self.start_long_client("-b")
        with open(f"/proc/{client.pid}/task/{client.pid}/children", encoding="ascii") as file:
            server = int(file.read())
        watch = os.pidfd_open(server)
        self.addCleanup(os.close, watch)
        client.kill()
        client.wait()
        # Not our child: its descriptor becomes readable when it ends.
        self.assertTrue(select.select([watch], [], [], PATIENCE)[0], "the server lives on")

    def test_the_other_half_dies(self):
        client = self.start_long_client("-b")
        with open(f"/proc/{client.pid}/task/{client.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        began = time.monotonic()
        self.assertRegex(self.words_at_the_end(client), "died|gone")
        self.assertLess(time.monotonic() - began, 10)

    @staticmethod
    def kinds():
        for path in ("fast", "control"):
            for mode in ("ping-pong", "two-way"):
                yield "--path", path, "--mode", mode
        yield "--mode", "one-way", "--threads", "2", "--sizes", "1M"
        yield "--sleep", "--mode", "ping-pong"


if __name__ == "__main__":
    unittest.main(verbosity=2)
