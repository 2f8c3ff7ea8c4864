"""Programs against the DOCA prefix, as their authors would build and run them: the examples and a
project in the manner of 2023, with meson and pkg-config, given nothing but a search path. The two
halves of each talk; killed servers and missing ones are told of.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from program import Program, ProgramError

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
PATIENCE = 120  # seconds; far more than anything takes


def expect(condition, *what):
    if not condition:
        raise ProgramError(" ".join(str(word) for word in what))


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            check=False, timeout=PATIENCE * 5, **options)
    return result.returncode, result.stdout + result.stderr


def meson(project, prefix, directory):
    """Builds a project against a prefix; where its programs are."""
    environment = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    environment.pop("DESTDIR", None)
    for command in (["meson", "setup", directory, project], ["ninja", "-C", directory, "-j2"]):
        code, text = run(*command, env=environment)
        expect(code == 0, *command, "failed:\n", text)
    return pathlib.Path(directory)


def check_pair(server, ready, client, of_server, of_client):
    """Both end well, and say what they should."""
    with Program(server) as one:
        one.wait_for(ready)
        with Program(client) as other:
            for program, words in ((other, of_client), (one, of_server)):
                text = program.finish()
                for word in words:
                    expect(word in text, *program.command, "did not say", repr(word), "but:\n",
                           text)


DPU = ["-p", "03:00.0", "-r", "3b:00.0"]
HOST = ["-p", "3b:00.0"]


def check_examples(programs, megabytes=1100):
    def pair(name, ready, more_server=(), more_client=(), of_server=(), of_client=()):
        check_pair([programs / f"doca_{name}_server", *DPU, *more_server], ready,
                   [programs / f"doca_{name}_client", *HOST, *more_client], of_server, of_client)

    texts = {"more_server": ["-t", "from below"], "more_client": ["--text", "from above"]}
    pair("cc", "Listening as", **texts, of_server=["Received: from above"],
         of_client=["Received: from below"])
    pair("cc_dma", "Listening as", **texts, of_server=["Read from the host: from above"],
         of_client=["Written by the DPU: from below"])
    pair("comch_ctrl_path", "Waiting for a client", **texts, of_server=["Received: from above"],
         of_client=["Received: from below"])
    pair("comch_data_path_high_speed", "Waiting for a client", **texts,
         of_server=["Received on the fast path: from above"],
         of_client=["Received on the fast path: from below"])
    pair("comch_throughput", "Waiting for a client", ["-n", "2"],
         ["-n", "2", "-m", str(megabytes)], of_server=[f"received {megabytes / 1000:.1f}"],
         of_client=["rate ", "99.9%"])


def check_usage(programs):
    """Of every sample: asked for, the usage is the answer, on stdout; after a wrong flag it explains an
    error, on stderr, and nothing is done."""
    common = {"-h": "--help", "-v": "--version", "-l": "--log-level", "-p": "--pci-addr"}
    text = {"-t": "--text"}
    numbers = {"-n": "--threads", "-s": "--size", "-d": "--depth"}
    samples = {"cc": text, "cc_dma": text, "comch_ctrl_path": text, "comch_data_path_high_speed": text,
               "comch_throughput": numbers}
    every = common | text | numbers | {"-r": "--rep-pci", "-m": "--megabytes"}
    for sample, own in samples.items():
        for side, of_side in (("server", {"-r": "--rep-pci"}),
                              ("client", {"-m": "--megabytes"} if own is numbers else {})):
            program = programs / f"doca_{sample}_{side}"
            flags = common | own | of_side

            def ask(*words, program=program):
                return subprocess.run([program, *words], capture_output=True, text=True, check=False,
                                      stdin=subprocess.DEVNULL, timeout=PATIENCE)

            for flag in "-h", "--help":
                result = ask(flag)
                expect(result.returncode == 0 and result.stderr == "", program.name, flag, "failed:",
                       result.stderr)
                usage = result.stdout
                for word in (f"Usage: {program.name} [DOCA Flags] [Program Flags]", "CRITICAL=20",
                             "ERROR=30", "WARNING=40", "INFO=50", "DEBUG=60"):
                    expect(word in usage, "the usage lacks", word, ":\n", usage)
                for short, long in every.items():
                    expect((f"{short}, {long}" in usage) == (short in flags), program.name, short,
                           "is in the usage of the wrong program:\n", usage)
            for flag in "-v", "--version":
                result = ask(flag)
                expect(result.returncode == 0 and "3." in result.stdout and result.stderr == "",
                       program.name, flag, ":", result.stdout, result.stderr)
            wrong = [("--no-such-flag",), ("-x",), ("a word",), ("-p",), ("-l", "7"), ("-l", "much")]
            wrong += [(short, "1") for short in every if short not in flags]
            wrong += [(short, value) for short in own if own is numbers
                      for value in ("0", "-1", "many", "99999999999")]
            for words in wrong:
                result = ask(*words)
                expect(result.returncode == 1 and usage.strip() in result.stderr and
                       result.stdout == "", program.name, *words, "answered", result.returncode,
                       result.stdout, result.stderr)


def check_flags(programs, directory):
    check_usage(programs)
    server, client = programs / "doca_cc_server", programs / "doca_cc_client"
    code, text = run(server, "-p", "00:00.0")
    expect(code != 0 and "no suitable device" in text, "an unknown device:", text)
    code, text = run(server, "-p", DPU[1], "-r", "00:00.0")
    expect(code != 0 and "epresentor" in text, "an unknown representor:", text)
    code, text = run(client, *HOST)
    expect(code != 0 and "Cannot connect: Connection aborted" in text, "no service:", text)
    code, text = run(client, *HOST, "-l", "20")
    expect(code != 0 and "Cannot connect" not in text, "an error below the log level:", text)
    code, text = run(client, *HOST, "--log-level", "30")
    expect(code != 0 and "Cannot connect" in text, "an error at the log level:", text)
    code, text = run(programs / "doca_comch_ctrl_path_client", *HOST)
    expect(code != 0 and "could not be reached" in text, "no server:", text)

    path = os.path.join(directory, "flags.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"doca_general_flags": {"log-level": 50},
                   "doca_program_flags": {"pci-addr": "03:00.0", "rep-pci": "3b:00.0",
                                          "text": "out of a file"}}, file)
    check_pair([server, "--json", path], "Listening as", [client, *HOST], [],
               ["Received: out of a file"])


def check_kill(programs):
    """A killed service fails the client that waits for it, and the name is free again."""
    with Program([programs / "doca_cc_server", *DPU]) as server:
        server.wait_for("Listening as")
        server.process.send_signal(signal.SIGSTOP)  # so that it answers nothing
        client = Program([programs / "doca_cc_client", *HOST])
        client.wait_for("Waiting to be accepted")
        server.process.kill()
        code, text = client.end()
        expect(code != 0 and "connection failed" in text, "the client of a killed service:", text)
    check_pair([programs / "doca_cc_server", *DPU], "Listening as",
               [programs / "doca_cc_client", *HOST], [], ["Received: "])


def check_numbers_of_throughput(programs):
    """Of a server and a client that do not fit both fail and say why; so does one that asks too much."""
    server, client = (programs / f"doca_comch_throughput_{name}" for name in ("server", "client"))
    for of_server, of_client, why in ((["-n", "1"], ["-n", "3"], "has -n 3, the server -n 1"),
                                      (["-s", "100"], ["-s", "200"], "has -s 200")):
        with Program([server, *DPU, *of_server]) as one:
            one.wait_for("Waiting for a client")
            with Program([client, *HOST, *of_client]) as other:
                for program in (other, one):
                    code, text = program.end()
                    expect(code == 1 and why in text, *program.command, "ended with", code, text)
    for flags, why in ((["-s", "2000000000", "-m", "1000000"], "bytes of memory, more than"),
                       (["-d", "100000"], "-d 100000: the device takes at most"),
                       (["-s", "2000000", "-m", "1"], "-m 1 is not one message")):
        code, text = run(client, *HOST, *flags)
        expect(code == 1 and why in text, "the client with", *flags, "ended with", code, text)


def check_kill_on_the_fast_path(programs):
    """Of a server and a client in the middle of a transfer one is killed; the other one learns it."""
    def start(name, *flags):
        return Program([programs / f"doca_comch_throughput_{name}", "-n", "2", *flags])

    for victim in ("server", "client"):
        with start("server") as server:
            server.wait_for("Waiting for a client")
            with start("client", "-m", "1000000") as client:
                server.wait_for("Receiving")
                {"server": server, "client": client}[victim].process.kill()
                code, text = (client if victim == "server" else server).end()
                if victim == "server":
                    # It may have been starting a producer, sending, or waiting.
                    expect(code != 0 and any(said in text for said in
                                             ("Not connected", "failed", "has gone")),
                           "the server was killed, and the client said:", text)
                else:
                    expect(code == 1 and "ended before it was through" in text,
                           "the client was killed, and the server said:", text)


def check_cc_project(directory):
    """Both dialects of DOCA CC, in C and in C++, each side from its own prefix."""
    built = {side: meson(SOURCE / "tests/doca_cc_project", BUILD / prefix,
                         os.path.join(directory, f"cc_{side}"))
             for side, prefix in (("dpu", "doca-dpu"), ("host", "doca"))}
    for program in ("cc_program", "cc_program_later"):
        check_pair([built["dpu"] / program, *DPU], "Listening", [built["host"] / program, *HOST],
                   ["Echoed: over and back"], ["Came back: over and back"])


def check_old_project(directory):
    dpu = meson(SOURCE / "tests/doca_2023_project", BUILD / "doca-dpu",
                os.path.join(directory, "old_dpu"))
    host = meson(SOURCE / "tests/doca_2023_project", BUILD / "doca",
                 os.path.join(directory, "old_host"))
    check_pair([dpu / "old_program", *DPU], "Listening", [host / "old_program", *HOST],
               ["Built for the DPU", "Device 03:00.0, raw 0300"],
               ["Built for the host", "Device 3b:00.0, raw 3b00", "Came back: round trip"])
    for program in ("calls_c", "calls_cpp"):  # what has one name and two forms, then and now
        code, text = run(host / program)
        expect(code == 0 and "both forms" in text, program, "ended with", code, text)


def main():
    for name in ("COMCH_SIDE", "COMCH_DEVICE", "COMCH_DOMAIN_FILE"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["COMCH_DOMAIN"] = os.path.join(directory, "domain")
        programs = meson(SOURCE / "examples", BUILD / "doca", os.path.join(directory, "examples"))
        check_examples(programs)
        check_flags(programs, directory)
        check_kill(programs)
        check_numbers_of_throughput(programs)
        check_kill_on_the_fast_path(programs)
        check_old_project(directory)
        check_cc_project(directory)
    print("ok")


if __name__ == "__main__":
    try:
        main()
    except ProgramError as error:
        sys.exit(str(error))
