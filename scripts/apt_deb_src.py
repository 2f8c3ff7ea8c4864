#!/usr/bin/env python3
"""Prints the machine's own apt entries as deb-src entries (deb822), for a private .sources file.

Both styles are read: one-line (sources.list) and deb822 (*.sources). Everything that decides whom
apt trusts (Signed-By, Trusted, ...) and where it fetches is carried over; Architectures is not,
since sources have none. Nothing on the machine is changed.

usage: apt_deb_src.py [--etc DIR] [--from URI/SUITE]...
  --from   only entries with this URI and suite (as `apt-cache policy` prints them); all if none match
"""
import argparse
import pathlib
import re
import sys


def one_line_entries(text):
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        match = re.match(r"(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$", line)
        if not match:
            continue
        kind, options, uri, suite, components = match.groups()
        if uri.startswith("cdrom:"):
            continue  # no sources there, and its name may hold spaces
        entry = {"Types": kind, "URIs": uri, "Suites": suite}
        if components:
            entry["Components"] = components
        for option in (options or "").split():
            name, _, value = option.partition("=")
            # One-line options are the deb822 fields' names in lower case, lists joined by commas.
            entry[name.title()] = value.replace(",", " ")
        yield entry


def deb822_entries(text):
    for stanza in re.split(r"\n\s*\n", text):
        entry, field = {}, None
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and field:
                entry[field] += "\n" + line  # an inline key goes on over many lines
            elif ":" in line:
                field, value = line.split(":", 1)
                field = field.strip()
                # Field names are matched without case; ours are written as the manual writes them.
                field = {"types": "Types", "uris": "URIs", "suites": "Suites"}.get(field.lower(), field)
                entry[field] = value.strip()
        if entry.get("Enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "URIs" in entry and "Suites" in entry:
            yield entry


def machine_entries(etc):
    files = [etc / "sources.list"]
    folder = etc / "sources.list.d"
    if folder.is_dir():
        files += sorted(folder.iterdir())
    for file in files:
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".list":
            yield from one_line_entries(text)
        elif file.suffix == ".sources":
            yield from deb822_entries(text)


def wanted_part(entry, wanted):
    """The entry with only those of its suites that were asked for, or None."""
    uris = [uri.rstrip("/") for uri in entry["URIs"].split()]
    suites = [s for s in entry["Suites"].split()
              if any(f"{uri}/{s}" in wanted for uri in uris)]
    return {**entry, "Suites": " ".join(suites)} if suites else None


def main():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--etc", type=pathlib.Path, default=pathlib.Path("/etc/apt"))
    parser.add_argument("--from", dest="wanted", action="append", default=[])
    options = parser.parse_args()

    dropped = {"types", "architectures", "arch", "enabled", "by-hash", "pdiffs", "targets"}
    entries = list(machine_entries(options.etc))
    wanted = {w.rstrip("/") for w in options.wanted}
    chosen = [part for part in (wanted_part(e, wanted) for e in entries) if part] or entries
    if not chosen:
        sys.exit(f"no package source is configured under {options.etc}")
    seen = set()
    for entry in chosen:
        lines = ["Types: deb-src"]
        lines += [f"{k}: {v}" for k, v in entry.items() if k.lower() not in dropped]
        stanza = "\n".join(lines)
        if stanza not in seen:
            seen.add(stanza)
            print(stanza + "\n")


if __name__ == "__main__":
    main()
