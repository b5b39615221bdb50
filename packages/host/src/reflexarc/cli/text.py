"""Text from machines, made safe for a terminal."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import sys
import unicodedata
from typing import TextIO


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; newlines and tabs stay."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def one_line(text: str) -> str:
    """The same, on one line."""
    return " ".join(printable(text).split())


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is there and is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def called() -> str:
    """How this program was called, so that a command that is printed works as it is pasted."""
    program = sys.argv[0]
    if os.path.basename(program) == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m reflexarc"
    found = shutil.which("reflexarc")
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(program)
    return "reflexarc" if is_found or os.sep not in program else shlex.quote(program)


def pasteable(text: str) -> str:
    """A message whose commands, between backticks or by themselves, are as this program was called."""
    return re.sub(r"(^|`)reflexarc (?=[a-z])", lambda found: f"{found[1]}{called()} ", text)


def person() -> str:
    """Who is at the command line, as the journal names them."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return f"user {os.getuid()} at the command line"


def dump(data: object) -> str:
    """One JSON document on one line; non-ASCII and control characters are escaped."""
    return json.dumps(data, default=str)
