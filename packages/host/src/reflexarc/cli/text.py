"""Text from machines, made safe for a terminal."""

from __future__ import annotations

import getpass
import json
import os
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


def person() -> str:
    """Who is at the command line, as the journal names them."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return f"user {os.getuid()} at the command line"


def dump(data: object) -> str:
    """One JSON document on one line; non-ASCII and control characters are escaped."""
    return json.dumps(data, default=str)
