"""A program in C, against the DOCA prefix, whose command line has commands, devices and a part for
somebody else.
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
LIBRARIES = BUILD / "doca/lib"

# Arguments; the status, and what it says last on stdout.
CASES = [
    ("", 0, "command none limit -1 reset 0 opened 0 devargs - rep 0 theirs"),
    ("-d pci/3b:00.0,a=1,b=2 quota get", 0,
     "command get limit -1 reset 0 opened 1 devargs a=1,b=2 rep 0 theirs"),
    ("quota -d 3b:00.0 set -rn 010", 0,
     "command set limit 10 reset 1 opened 1 devargs - rep 0 theirs"),
    ("-l 0-3 --file-prefix x -- --rep pci/03:00.0,pf0vf0 quota get", 0,
     "command get limit -1 reset 0 opened 1 devargs - rep 1 theirs -l 0-3 --file-prefix x"),
    ("--list", 0, "command none limit -1 reset 0 opened 0 devargs - rep 0 theirs"),
    ("--list -d 3b:00.0", 1, "DOCA_ERROR_INVALID_VALUE"),
    ("quota set", 1, "DOCA_ERROR_INVALID_VALUE"),
    ("quota set --limit 0x10", 1, "DOCA_ERROR_INVALID_VALUE"),
    ("quota get --limit 1", 1, "DOCA_ERROR_NOT_SUPPORTED"),
    ("quota put", 1, "DOCA_ERROR_NOT_SUPPORTED"),
    ("unused", 1, "DOCA_ERROR_NOT_SUPPORTED"),
    ("-d nothing", 1, "DOCA_ERROR_INVALID_VALUE"),
]


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                          env=os.environ | environment)


def build(directory):
    program = os.path.join(directory, "quota")
    flags = run("pkg-config", "--cflags", "--libs", "doca-argp", "doca-common",
                PKG_CONFIG_PATH=str(LIBRARIES / "pkgconfig"))
    result = run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-DDOCA_ALLOW_EXPERIMENTAL_API",
                 str(SOURCE / "tests/doca_argp_project/quota.c"), "-o", program,
                 f"-Wl,-rpath,{LIBRARIES}", *shlex.split(flags.stdout))
    if flags.returncode != 0 or result.returncode != 0:
        sys.exit(f"cannot build the program:\n{flags.stderr}{result.stderr}")
    return program


def main():
    failures = []

    def expect(holds, what, result):
        if not holds:
            failures.append(f"{what}: {result.returncode}\n{result.stdout}{result.stderr}")

    with tempfile.TemporaryDirectory() as directory:
        program = build(directory)
        os.environ["COMCH_DOMAIN"] = os.path.join(directory, "domain")
        for arguments, status, last in CASES:
            result = run(program, *arguments.split())
            expect(result.returncode == status and result.stdout.splitlines()[-1:] == [last],
                   f"'{arguments}'", result)
            expect((status == 0) == ("Usage:" not in result.stderr), f"'{arguments}'", result)
        usage = run(program, "-h")
        for part in ("Usage: quota [DPDK Flags] -- [DOCA Flags] [Program Flags] [Command]\n",
                     "\nDOCA Flags:\n", "\nProgram Flags:\n", "-d, --device <device>",
                     "\nCommands:\n  quota  "):
            expect(usage.returncode == 0 and part in usage.stdout, part, usage)
        expect("hidden" not in usage.stdout, "a hidden command", usage)
        usage = run(program, "quota", "set", "--help")
        expect("Usage: quota quota set " in usage.stdout and "--limit <integer>" in usage.stdout,
               "usage of a command", usage)
        told = run(program, "--unknown", QUOTA_LOGGER="1")
        expect("told at 30: there is no flag --unknown\n" in told.stdout and
               "there is no flag" not in told.stderr, "logger callback", told)
    if failures:
        sys.exit("\n".join(failures))
    print("ok")


if __name__ == "__main__":
    main()
