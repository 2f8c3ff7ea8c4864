"""perftest/compare measures, pairs, judges and reports; the programs it is made of say what they can."""
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "perftest"))
from comparison import doca, libfabric, mpi, programs, rows, scaling, ucx  # noqa: E402
from comparison.measure import Pair, Samples, best_peer, judge  # noqa: E402
from comparison.placement import placement  # noqa: E402
from comparison.rows import Row  # noqa: E402
import perftest_pair  # noqa: E402  (comparison knows where it is)


def run(*command, code=0, codes=()):
    result = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=120, check=False)
    codes = codes or (code,)
    if result.returncode not in codes:
        raise AssertionError(f"{command} ended with {result.returncode}, none of {codes}:\n"
                             f"{result.stdout}{result.stderr}")
    return result


def compare(*arguments, codes=(0,)):
    return run(sys.executable, SOURCE / "perftest/compare", "--build-dir", BUILD, *arguments, codes=codes)


class Arithmetic(unittest.TestCase):
    LATENCY = Row("ucp", "tag_lat", 8, target=(0.75, 0.8))
    RATE = Row("ucp", "tag_bw", 8, target=(1.6, 3))

    def samples(self, row, peer, *pairs):
        samples = Samples()
        samples.pairs[(row, peer)] = [Pair(comch, other, where) for comch, other, where in pairs]
        return samples

    def test_probes_that_disagree_name_no_placement(self):
        self.assertEqual(placement([50, 60, 99.9]), "near")
        self.assertEqual(placement([250, 101]), "far")
        self.assertIsNone(placement([50, 250, 50]))
        self.assertEqual(placement([60, 95]), "near")
        self.assertEqual(placement([200, 330]), "far")
        self.assertEqual(placement([None, None, None]), "emulated")

    def test_probes_about_the_limit_need_not_be_on_one_side_of_it(self):
        self.assertEqual(placement([95, 99, 104]), "near")
        self.assertEqual(placement([98, 104, 103]), "far")
        self.assertIsNone(placement([80, 121, 100]))

    def test_pairs_during_which_the_placement_changed_are_thrown_away(self):
        samples = Samples()
        probes = iter([50, 50, 250, 50, 50, 50])
        for _ in range(2):
            samples.take(self.RATE, "posix", lambda: next(probes), lambda name, row: 1.0, False)
        self.assertEqual(samples.thrown_away, {(self.RATE, "posix"): 1})
        self.assertIsNone(samples.why_none(self.RATE, "posix"), "one was kept")
        self.assertEqual(len(samples.of(self.RATE, "posix", "near")), 1)

    def test_a_row_without_pairs_says_why(self):
        samples = Samples()
        probes = itertools.cycle([50, 250])
        for _ in range(2):
            samples.take(self.RATE, "posix", lambda: next(probes), lambda name, row: 1.0, False)
        self.assertEqual(samples.why_none(self.RATE, "posix"), "too noisy: 0 of 2 pairs kept")
        self.assertEqual(samples.why_none(self.RATE, "sysv"), "not measured: time was up")
        samples.failed[self.RATE, "sysv"] += 1
        self.assertEqual(samples.why_none(self.RATE, "sysv"), "failed: 0 of 1 pairs came to an end")

    def test_runners_tell_what_they_tell(self):
        for told, runner, *row in (("mean", ucx, "ucp", "tag_lat"), ("median", ucx, "start", "ucx_lat"),
                                   ("median", doca, "doca", "doca_lat"), ("median", mpi, "mpi", "mpi_lat"),
                                   ("median", mpi, "mpi", "mpi_used_lat"),
                                   ("mean", mpi, "mpi", "mpi_alltoall"),
                                   ("mean", libfabric, "fi", "tag_lat"),
                                   ("median", libfabric, "fi-mpi", "mpi_lat")):
            self.assertEqual(runner.tells(Row(*row, 8)), told, row)
        self.assertEqual(ucx.tells(Row("ucp", "tag_lat", 8, latency="median")), "median")
        self.assertEqual(libfabric.tells(Row("fi", "pingpong_lat", 8, latency="median")), "mean")

    def test_a_program_that_tells_nothing_is_none_of_a_pair(self):
        samples = Samples()
        for values in ({"comch": 0, "posix": 1}, {"comch": 1, "posix": 0.0}):
            with self.assertRaisesRegex(ucx.PairError, "told 0"):
                samples.take(self.RATE, "posix", lambda: 50,
                             lambda name, _, told=values: told[name], False)
        self.assertEqual(samples.pairs, {})

    def test_the_ratio_is_the_median_of_the_pairs(self):
        samples = self.samples(self.LATENCY, "posix", (1, 2, "near"), (2, 3, "near"),
                               (1, 1, "near"), (9, 1, "far"))
        verdict = judge(samples, self.LATENCY, "posix", "near")
        self.assertAlmostEqual(verdict.ratio, 2 / 3)
        self.assertEqual(verdict.pairs, 3)
        self.assertTrue(verdict.reached)
        self.assertFalse(verdict.conclusive)  # one quartile is above the target

    def test_a_rate_must_be_above_its_target(self):
        samples = self.samples(self.RATE, "posix", *[(3, 2, "near")] * 3)
        verdict = judge(samples, self.RATE, "posix", "near")
        self.assertFalse(verdict.reached)
        self.assertTrue(verdict.conclusive)

    def test_the_best_peer_is_the_one_that_is_worst_for_us(self):
        samples = self.samples(self.LATENCY, "posix", *[(1, 2, "near")] * 3)
        samples.pairs[(self.LATENCY, "sysv")] = [Pair(1, 1.5, "near")] * 3
        self.assertEqual(best_peer(samples, self.LATENCY, ["posix", "sysv"], "near").peer, "sysv")
        self.assertIsNone(best_peer(samples, self.LATENCY, ["posix", "sysv"], "far"))


class Pairs(unittest.TestCase):
    def interrupt(self, run_pair):
        """While the client runs: the signal may come to this process alone."""
        with (unittest.mock.patch.object(perftest_pair, "finish", side_effect=KeyboardInterrupt),
              self.assertRaises(KeyboardInterrupt)):
            run_pair()
        with self.assertRaises(ChildProcessError, msg="a half of the pair lives on"):
            os.waitpid(-1, os.WNOHANG)

    def test_an_interrupted_pair_leaves_nobody_behind(self):
        port = perftest_pair.free_port()
        server = [sys.executable, "-c", "import socket, time\n"
                  f"s = socket.create_server(('127.0.0.1', {port}))\ntime.sleep(60)"]
        self.interrupt(lambda: programs.pair("a pair", "", server, ["sleep", "60"], port,
                                             ({}, {})))

    def test_ucx_perftests_buffers_of_the_heap_have_pages_of_their_own(self):
        program = ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.aligned_alloc.restype = ctypes.c_void_p\n"
                   "length = ctypes.c_size_t(1 << 20)\n"
                   "buffer = libc.aligned_alloc(ctypes.c_size_t(4096), length)\n"
                   "print(ctypes.string_at(buffer, 1 << 20).count(0))")
        for transport in (perftest_pair.Transport("posix,self"), perftest_pair.comch_transport(BUILD, "heap")):
            environment = {**transport.environment("host"), "LD_PRELOAD": ""}
            printed = subprocess.run([sys.executable, "-c", program], env=environment, check=True,
                                     capture_output=True, text=True, timeout=60).stdout
            self.assertEqual(printed.strip(), "0", "never written, it is one page of zeros")

    def test_an_interrupted_ucx_perftest_leaves_nobody_behind(self):
        self.interrupt(lambda: perftest_pair.run_pair(perftest_pair.Transport("posix,self"),
                                                      ["-t", "tag_lat", "-n", "1000000000"]))


class Programs(unittest.TestCase):
    def measured(self, key, wanted, *arguments):
        """What compare printed, round after round, and its figures by `key`, when it has those that are wanted:
        one pair of each is enough, but a machine may flip between all runs of a round, and of the next."""
        texts, figures = [], {}
        end = time.monotonic() + 300
        with tempfile.TemporaryDirectory(prefix="comch-compare-") as directory:
            path = pathlib.Path(directory) / "figures.json"
            while not wanted <= figures.keys() and time.monotonic() < end:
                texts.append(compare(*arguments, "--rounds", 1, "--json", path, codes=(0, 1)).stdout)
                figures |= {entry[key]: entry for entry in json.loads(path.read_text()) if entry["pairs"]}
        self.assertLessEqual(wanted, figures.keys())
        for entry in figures.values():
            self.assertEqual(entry["bytes"], 8)
            for pair in entry["pairs"]:
                self.assertGreater(pair["comch"], 0)
                self.assertGreater(pair["peer"], 0)
        return "".join(texts), figures

    def test_compare_measures(self):
        text, figures = self.measured("peer", {"posix", "hand-over"}, "--rows", "am_lat")
        self.assertIn("UCT am_lat short 8 B", text)
        entry = figures["posix"]
        self.assertEqual((entry["latency"], entry["peer_latency"]), ("mean", "mean"))
        self.assertEqual(figures["hand-over"]["peer_latency"], "median")
        pair, verdict = entry["pairs"][0], entry["verdicts"][0]
        self.assertEqual((verdict["placement"], verdict["comch"], verdict["peer"], verdict["pairs"]),
                         (pair["placement"], pair["comch"], pair["peer"], 1))
        self.assertEqual(verdict["quartiles"], [verdict["ratio"]] * 2)
        self.assertEqual(verdict["target"], 0.85 if pair["placement"] == "near" else 0.75)
        self.assertEqual(verdict["verdict"], "too noisy to say")
        self.assertEqual((entry["thrown_away"], entry["failed"]), (0, 0))

    def test_a_peer_is_chosen_by_its_name(self):
        _, figures = self.measured("peer", {"posix+cma"}, "--rows", "UCP tag_lat 8 B", "--peers", "posix+cma")
        self.assertEqual(figures.keys(), {"posix+cma"})

    def test_what_was_not_measured_is_listed(self):
        with tempfile.TemporaryDirectory(prefix="comch-compare-") as directory:
            path = pathlib.Path(directory) / "figures.json"
            result = compare("--minutes", "1e-9", "--rows", "am_lat", "--peers", "posix", "--json", path,
                             codes=(1,))
            entries = json.loads(path.read_text())
        self.assertIn("UCT am_lat short 8 B beside posix: not measured: time was up", result.stdout)
        self.assertIn("UCT am_lat short 8 B beside hand-over: not measured: time was up", result.stdout)
        self.assertIn("no pair was kept", result.stderr)
        self.assertEqual([entry["pairs"] + entry["verdicts"] for entry in entries], [[], []])

    def test_figures_that_cannot_be_written_are_not_measured(self):
        with tempfile.NamedTemporaryFile() as file:
            for option in ("--json", "--plots"):
                said = compare("--rows", "am_lat", option, f"{file.name}/figures", codes=(2,)).stderr
                self.assertRegex(said, f"error: {option}: .*Not a directory: '{file.name}")

    def test_interrupted_compare_ends_in_an_orderly_way(self):
        with subprocess.Popen([sys.executable, str(SOURCE / "perftest/compare"), "--rounds", "1000",
                               "--rows", "am_lat", "--peers", "posix", "--build-dir", str(BUILD)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as compare:
            try:
                for line in compare.stderr:
                    if line.startswith("  round"):
                        break
                compare.send_signal(signal.SIGINT)
                text, more = compare.communicate(timeout=120)
            finally:
                compare.kill()
        self.assertEqual(compare.returncode, 130, more)
        self.assertIn("interrupted", more)
        self.assertNotIn("Traceback", text + more)

    def test_compare_puts_the_doca_face_beside_the_core(self):
        _, figures = self.measured("test", {"doca_lat", "doca_bw"}, "--set", "doca", "--rows", "8 B")
        self.assertEqual({entry["peer"] for entry in figures.values()}, {"core"})

    def test_compare_refuses_what_it_cannot_do(self):
        for wrong, says in ((["--rows", "no such row"], "no row"), (["--peers", "nobody"], "no peer"),
                            (["--rounds", "0"], "at least 1"), (["--minutes", "0"], "more than 0"),
                            (["--minutes=-3"], "more than 0"), (["--minutes", "nan"], "more than 0"),
                            (["--build-dir", "/nonexistent"], "build comch first"),
                            (["--rows", "["], "neither a name nor a regular expression"),
                            (["--peers", "posix+cma", "--rows", "am_lat"], "beside posix+cma"),
                            (["--set", "doca", "--peers", "sysv"], "beside sysv"),
                            (["--set", "mpi", "--latency", "median"], "the row MPI mpi_alltoall")):
            self.assertIn(says, compare(*wrong, codes=(2,)).stderr)

    def test_a_program_that_fails_does_not_end_the_comparison(self):
        for does, says in (("exit 3", "exit code 3"), ("echo none", "no result")):
            with self.subTest(does), tempfile.TemporaryDirectory(prefix="comch-compare-") as directory:
                program = pathlib.Path(directory) / "bin/comch_limits"
                program.parent.mkdir()
                program.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
                program.chmod(0o755)
                said = run(sys.executable, SOURCE / "perftest/compare", "--rounds", 1, "--rows",
                           "am_lat", "--peers", "posix", "--build-dir", directory, code=1).stderr
                self.assertIn(says, said)
                self.assertIn("no measurement came to an end", said)

    def test_a_program_that_takes_too_long_is_an_error_like_others(self):
        with (unittest.mock.patch.object(programs, "TIMEOUT", 0.1),
              self.assertRaisesRegex(perftest_pair.PairError, "nap: .*timed out")):
            programs.figures_of("nap", ["sleep", "60"])

    def test_compare_tells_where_rdma_devices_are(self):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("COMCH_VM")}
        result = subprocess.run([sys.executable, str(SOURCE / "perftest/compare"), "--set", "verbs",
                                 "--build-dir", str(BUILD)], env=environment, capture_output=True,
                                text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("scripts/vm-test.sh -- perftest/compare --set verbs", result.stderr)

    def test_libfabric_programs_over_comch_and_shm(self):
        rows = [Row("fi", "tag_lat", 64), Row("fi", "tag_bw", 8), Row("fi", "tag_bw", 65536),
                Row("fi", "pingpong_lat", 64), Row("fi", "pingpong_bw", 65536)]
        # Few, since a ping-pong crawls where others want the CPUs.
        with unittest.mock.patch.object(libfabric, "iterations", return_value=200):
            for row, name in itertools.product(rows, ("comch", "shm")):
                self.assertGreater(libfabric.run(name, row, BUILD), 0, f"{row.name} over {name}")

    def test_many_connections_beside_one(self):
        with unittest.mock.patch.dict(scaling.MANY, {test: 20 for test in scaling.MANY}):
            for row, name in itertools.product(rows.SCALING, ("comch", *scaling.PEERS)):
                self.assertGreater(scaling.run(name, row, BUILD), 0, f"{row.name}, {name}")

    def test_start_up(self):
        row = next(row for row in rows.TARGETS if row.level == "start")
        self.assertEqual([name for name in ucx.PEERS if ucx.can(name, row)], ["posix+cma"])
        for name in ("comch", "posix+cma"):
            self.assertGreater(ucx.run(name, row, BUILD), 0, name)

    def test_a_median_is_not_a_mean(self):
        # Of a program whose output says both.
        fields = {"overall_lat": "2.0", "50.0_percentile_lat": "1.0"}
        self.assertEqual(Row("ucp", "tag_lat", 8).value(fields), 2)
        self.assertEqual(Row("ucp", "tag_lat", 8, latency="median").value(fields), 1)
        figures = json.loads(run(BUILD / "bin/comch_fi_perftest", "lat", "--provider", "shm", "--size", 64,
                                 "--median", "--json").stdout)[0]
        self.assertGreater(figures["median_latency_us"], 0)
        self.assertNotEqual(figures["median_latency_us"], figures["latency_us"])
        with unittest.mock.patch.object(libfabric, "iterations", return_value=200):
            self.assertGreater(libfabric.run("comch", Row("fi", "tag_lat", 64, latency="median"), BUILD), 0)

    def test_writes_and_reads_through_libfabric(self):
        environment = libfabric.environment("host", BUILD)
        for test, provider in itertools.product(("write", "read"), ("comch", "shm")):
            with unittest.mock.patch.dict(os.environ, environment):
                output = run(BUILD / "bin/comch_fi_perftest", test, "--provider", provider, "--size", 8,
                             "--size", "64K", "--seconds", 0.01, "--json").stdout
            for figures in json.loads(output):
                self.assertGreater(figures["bytes_per_second"], 0, f"{test} over {provider}")

    def test_libfabric_without_its_provider_says_so(self):
        error = run(BUILD / "bin/comch_fi_perftest", "lat", "--provider", "nobody", code=1).stderr
        self.assertIn("no provider 'nobody'", error)

    def words_of_libfabric_when_to_the_other_process(self, happens, *options):
        """What comch_fi_perftest says of a signal to its other half, amid messages."""
        with unittest.mock.patch.dict(os.environ, libfabric.environment("host", BUILD)), subprocess.Popen(
                [BUILD / "bin/comch_fi_perftest", "lat", "--size", "8", "--seconds", "60", *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            others = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children")
            received = 0
            while received < 1000:
                self.assertIsNone(program.poll())
                other = others.read_text(encoding="ascii").strip()
                seen = json.loads(run(BUILD / "bin/comch_stat", "--json", "--pid", other).stdout) if other else {}
                received = sum(connection["rx_messages"] for process in seen.get("processes", [])
                               for connection in process["connections"])
            os.kill(int(other), happens)
            try:
                words = program.communicate(timeout=60)[1]
            finally:
                program.kill()
            self.assertEqual(program.returncode, 1, words)
            return words

    def test_libfabric_whose_other_process_ends_says_so(self):
        self.assertRegex(self.words_of_libfabric_when_to_the_other_process(signal.SIGKILL),
                         "the other process has ended|Connection reset")

    def test_libfabric_whose_other_process_stands_still_says_so(self):
        self.assertIn("nothing has moved for 1 s and the other process is still there",
                      self.words_of_libfabric_when_to_the_other_process(signal.SIGSTOP, "--timeout", "1"))

    def test_latency_is_of_ping_pongs(self):
        for test, has in (("lat", True), ("bw", False)):
            figures = json.loads(run(BUILD / "bin/comch_fi_perftest", test, "--provider", "shm", "--size", 64,
                                     "--seconds", 0.01, "--json").stdout)[0]
            self.assertEqual("latency_us" in figures, has, test)
            self.assertGreater(figures["messages_per_second"], 0)

    def test_messages_that_are_used(self):
        for provider in ("comch", "shm"):
            with unittest.mock.patch.dict(os.environ, libfabric.environment("host", BUILD)):
                figures = json.loads(run(BUILD / "bin/comch_fi_perftest", "lat", "--used", "--provider", provider,
                                         "--size", 3, "--size", "256K", "--seconds", 0.01, "--json").stdout)
            self.assertEqual([entry["bytes"] for entry in figures], [3, 256 * 1024], provider)
        self.assertIn("--used is of lat", run(BUILD / "bin/comch_fi_perftest", "bw", "--used", code=2).stderr)
        with unittest.mock.patch.object(libfabric, "figures_of", return_value=[{"latency_us": 1}]) as told:
            for test, used in (("tag_lat", False), ("tag_used_lat", True)):
                libfabric.run("shm", Row("fi", test, 64), BUILD)
                self.assertEqual("--used" in told.call_args.args[1], used, test)

    def test_numbers_that_are_none_are_refused(self):
        for program, *command in (("comch_fi_perftest", "lat", "--cpus=-7,0"),
                                  ("comch_fi_perftest", "lat", "--seconds", "nan"),
                                  ("comch_limits", "hand-over", "--cpus=-7,0"),
                                  ("comch_limits", "hand-over", "--seconds", "nan"),
                                  ("comch_scaling", "quiet", "--cpus=-7,0"),
                                  ("comch_scaling", "quiet", "--seconds", "nan"),
                                  ("comch_doca_perf", "--cpu=-7"), ("comch_doca_perf", "--server-cpu=-7")):
            with self.subTest(program=program, command=command):
                self.assertRegex(run(BUILD / "bin" / program, *command, code=105).stderr, "-7|nan")

    def test_limits(self):
        output = run(BUILD / "bin/comch_limits", "hand-over", "line-rate", "memcpy", "stream",
                     "process-vm", "--size", "64K", "--seconds", "0.01", "--json").stdout
        figures = json.loads(output)
        self.assertEqual([figure["what"] for figure in figures],
                         ["hand-over", "line-rate", "memcpy", "stream", "process-vm"])
        for figure in figures:
            self.assertGreater(figure["value"], 0)
        self.assertIn("nothing to copy",
                      run(BUILD / "bin/comch_limits", "memcpy", "--size", "0", code=105).stderr)
        for cpus in ("0,4000", "4000,0"):
            self.assertIn("CPU 4000", run(BUILD / "bin/comch_limits", "hand-over", "--cpus", cpus,
                                          code=1).stderr)
        self.assertIn("two different CPUs", run(BUILD / "bin/comch_limits", "hand-over", "--cpus",
                                                "0,0", code=105).stderr)

    def test_scaling_without_descriptors(self):
        for what in ("quiet", "fan-in", "memory"):
            said = run("prlimit", "--nofile=100", BUILD / "bin/comch_scaling", what, "--connections",
                       200, "--seconds", "0.02", code=1).stderr
            self.assertRegex(said, r"connection \d+ cannot be made: .* 100 \(ulimit -n\)", what)

    def test_scaling_leaves_nothing_behind_when_it_is_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with (tempfile.TemporaryDirectory(prefix="comch-scaling-") as directory,
                  subprocess.Popen([BUILD / "bin/comch_scaling", "quiet", "--seconds", "60"],
                                   env=os.environ | {"TMPDIR": directory}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                  as scaling):
                while not list(pathlib.Path(directory).glob("*/*")):  # until there is a domain in it
                    self.assertIsNone(scaling.poll())
                scaling.send_signal(number)
                text = scaling.communicate(timeout=120)[0]
                self.assertEqual((scaling.returncode, text), (128 + number, ""))
                self.assertEqual(os.listdir(directory), [])

    def test_a_full_disk_behind_the_output_is_an_error(self):
        for command in (["comch_limits", "hand-over"],
                        ["comch_scaling", "quiet", "--seconds", "0.02"],
                        ["comch_doca_perf", "--count", "10"],
                        ["comch_fi_perftest", "lat", "--provider", "shm", "--size", "8"]):
            with self.subTest(command), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([BUILD / "bin" / command[0], *command[1:]], stdout=full,
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        timeout=120, check=False)
                self.assertEqual(result.returncode, 1)
                self.assertIn("cannot write to standard output: No space left", result.stderr)

    def test_scaling(self):
        self.assertIn("--connections is of", run(BUILD / "bin/comch_scaling", "connect", "--connections", 20,
                                                 code=2).stderr)
        for what in ("quiet", "bulk", "fan-in", "connect", "memory"):
            many = () if what in ("bulk", "connect") else ("--connections", 20)
            output = run(BUILD / "bin/comch_scaling", what, *many, "--seconds", "0.02", "--json").stdout
            figure = json.loads(output)
            self.assertGreater(figure["value"], 0, what)
            if what == "bulk":
                self.assertGreaterEqual(figure["p99"], figure["value"])
                self.assertGreater(figure["alone"], 0)
                self.assertGreater(figure["stream_bytes_per_second"], 0)
            if what == "memory":
                self.assertLessEqual(figure["value"], 64 * 1024)
                self.assertLessEqual(figure["descriptors"], 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
