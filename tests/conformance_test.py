"""docs/conformance.md names tests; each of them exists."""
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["COMCH_SOURCE_DIR"])


def main():
    named = set(re.findall(r"`(\w+)\.(\w+)`", (SOURCE / "docs/conformance.md").read_text()))
    named = {name for name in named if name[1] not in ("h", "md", "pc", "py")}
    existing = {("system", path.stem) for path in (SOURCE / "tests").glob("*_test.py")}
    for folder in ("core", "doca_comch"):
        for path in (SOURCE / folder).rglob("*_test.cpp"):
            existing.update(re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(),
                                       re.MULTILINE))
    missing = sorted(".".join(name) for name in named - existing)
    if len(named) < 100 or missing:
        sys.exit(f"{len(named)} tests are named, and these are nowhere: {', '.join(missing)}")
    print("ok")


if __name__ == "__main__":
    main()
