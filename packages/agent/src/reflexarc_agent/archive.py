"""Builds the agent as one file that any Python from 3.9 on runs: `python -m reflexarc_agent.archive FILE`."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path
from typing import Iterator, Sequence, Tuple

import reflexarc_agent
import reflexarc_wire

_SHEBANG = b"#!/usr/bin/env python3\n"
# Must be readable by every Python 3, also one without zlib, or it couldn't say what it needs.
_START = "__main__.py"
_MAIN = b"""\
import sys

if sys.version_info < (3, 9):
    sys.exit("reflexarc-agent needs Python 3.9 or newer, this is %d.%d" % sys.version_info[:2])
try:
    import zlib
except ImportError:
    sys.exit("reflexarc-agent needs a Python with zlib: install that of the distribution")

from reflexarc_agent.main import main

sys.exit(main())
"""
# The same sources give the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> int:
    """Write the agent to `target`, executable, and return its size in bytes; raises OSError where it can't."""
    content = io.BytesIO()
    content.write(_SHEBANG)
    with zipfile.ZipFile(content, "a") as archive:
        for name, source in _sources():
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.external_attr = 0o100644 << 16
            stored = zipfile.ZIP_STORED if name == _START else zipfile.ZIP_DEFLATED
            archive.writestr(entry, source, stored, 9)
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(content.getvalue())
    part.chmod(0o755)
    os.replace(part, target)
    return len(content.getvalue())


def _sources() -> Iterator[Tuple[str, bytes]]:
    yield _START, _MAIN
    for package in (reflexarc_agent, reflexarc_wire):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            yield str(path.relative_to(folder.parent)), path.read_bytes()


def main(arguments: Sequence[str] = sys.argv[1:]) -> int:
    """Build to the one path named; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m reflexarc_agent.archive FILE", file=sys.stderr)
        return 2
    try:
        size = build(Path(arguments[0]))
    except OSError as error:
        print(f"can't write the agent: {error}", file=sys.stderr)
        return 1
    print(f"{arguments[0]}: {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
