"""Text from machines, made safe for a terminal."""

from __future__ import annotations

import json
import unicodedata


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; newlines and tabs stay."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def dump(data: object) -> str:
    """One JSON document on one line; non-ASCII and control characters are escaped."""
    return json.dumps(data, default=str)
