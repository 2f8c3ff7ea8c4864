"""Every function of the DOCA face is called with null pointers: with zeros, and with ones, in what is no
pointer, and with a null first argument and something in all the others. None crashes, and those that
answer refuse.
"""
import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys

BUILD = pathlib.Path(os.environ["COMCH_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])
LIBRARY = BUILD / "doca/lib/libdoca_common.so"

SUCCESS = 0
INVALID_VALUE = 6
NOT_CONNECTED = 14
BAD_STATE = 18

# What is answered instead, and why.
OTHERS = {
    "doca_argp_init": BAD_STATE,  # done before, so that the other calls of its kind are not refused
    "doca_comm_channel_ep_destroy": NOT_CONNECTED,  # as the documents have it
}
# Null, or nothing, is an argument like others.
ALSO = {
    ("doca_argp_start", "nothing"): SUCCESS,  # a command line without words
    ("doca_logger_create_list", "a null first argument"): SUCCESS,  # the root of all loggers
    ("doca_mmap_create_2023", "a null first argument"): SUCCESS,  # no user data
}
# What runs on the DPA takes what its program gives it, as the vendor's does.
ON_THE_DPA = "doca_dpa_dev_"
# The later dialect of DOCA CC: declared by macros, under the names of the first.
LATER = "_later"


def prototypes():
    """Name: result type, argument types; of all that the headers declare."""
    found = {}
    for header in (SOURCE / "doca_comch/include").glob("*.h"):
        text = re.sub(r"/\*.*?\*/|^\s*#.*?$", "", header.read_text(), flags=re.DOTALL | re.MULTILINE)
        for result, name, arguments in re.findall(
                r"DOCA_(?:EXPERIMENTAL|STABLE)\s+([^;{}()]*?)\b(doca_\w+)\(([^;{}]*?)\);", text):
            arguments = " ".join(arguments.split())
            found[name] = " ".join(result.split()), [] if arguments == "void" else arguments.split(", ")
    return found


def exported():
    text = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True,
                          check=True).stdout
    return {line.split()[-1] for line in text.splitlines()}


def call(library, name, arguments):
    """In a process of its own: the answer; None if there was none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        function = getattr(library, name)
        function.restype = ctypes.c_uint64
        os.write(writer, struct.pack("Q", function(*arguments)))
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 8)
    os.close(reader)
    os.waitpid(child, 0)
    return struct.unpack("Q", answer)[0] if answer else None


def is_pointer(argument):
    return "*" in argument or argument.split(" ")[0].endswith(("_cb_t", "_callback_t"))


def main():
    declared = prototypes()
    names = exported()
    unknown = [name for name in names - declared.keys()
               if name.startswith("doca_") and not name.endswith(LATER)]
    failures = [f"{name} is exported, and no header declares it" for name in unknown]
    library = ctypes.CDLL(str(LIBRARY))
    if library.doca_argp_init(b"null", None) != SUCCESS:
        sys.exit("cannot initialise the argument parser")
    room = ctypes.create_string_buffer(4096)
    calls = 0
    for name in sorted(names & declared.keys()):
        result, arguments = declared[name]
        if name.startswith(ON_THE_DPA) or not any(map(is_pointer, arguments)):
            continue
        nulls = [ctypes.c_uint64(0)] * len(arguments)
        ways = {"nothing": nulls,
                "null pointers": [ctypes.c_uint64(0 if is_pointer(argument) else 1)
                                  for argument in arguments]}
        if is_pointer(arguments[0]) and len(arguments) > 1:
            ways["a null first argument"] = [
                ctypes.c_uint64(0) if i == 0 else ctypes.byref(room) if is_pointer(argument)
                else ctypes.c_uint64(1) for i, argument in enumerate(arguments)]
        for way, values in ways.items():
            calls += 1
            answer = call(library, name, values)
            if answer is None:
                failures.append(f"{name} crashes with {way}")
            elif result == "doca_error_t":
                error = answer & 0xffffffff
                wanted = ALSO.get((name, way), OTHERS.get(name, INVALID_VALUE))
                if error != wanted:
                    failures.append(f"{name} answers {error} to {way} instead of {wanted}")
            elif result.endswith("*") and not result.startswith("const char") and answer != 0:
                failures.append(f"{name} answers {answer:#x} to {way}")
    if failures or calls < 500:
        sys.exit("\n".join([*failures, f"{calls} calls, {len(failures)} failures"]))
    print(f"ok: {calls} calls")


if __name__ == "__main__":
    main()
