"""How keys may be written, as regular expressions that mean the same in Python and ECMAScript."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from reflexarc.machine.keys import spellings
from reflexarc.machine.policy import POWER_CHORDS

# At the very end; `$` alone is before a last line break in Python, too.
END = r"$(?!\n)"


@cache
def key_pattern() -> str:
    """Matches every way to write one key."""
    return f"^{_one_of(spellings())}{END}"


@cache
def chord_pattern() -> str:
    """Matches keys joined by `+`."""
    return rf"^(?:{_one_of(spellings())}(?:\+(?=[\s\S])|{END}))+{END}"


@cache
def power_pattern() -> str:
    """Matches those keys and chords that are a power operation."""
    return "|".join(f"^{''.join(_has(part) for part in parts)}" for parts, _ in POWER_CHORDS)


def _has(part: Collection[str]) -> str:
    """A look-ahead for a chord with one of these keys, the right twin of a modifier included."""
    keys = {key for key in spellings() if key.removesuffix("_r") in part}
    return rf"(?=(?:[\s\S]*\+)?{_one_of(keys)}(?:\+|{END}))"


def _one_of(keys: Collection[str]) -> str:
    ways = sorted({way for key in keys for way in spellings()[key]}, key=lambda way: (-len(way), way))
    blank = "|[ ]" if "space" in keys else ""
    return rf"(?:\s*(?:{'|'.join(map(_any_case, ways))})\s*{blank})"


def _any_case(way: str) -> str:
    if len(way) == 1 and not way.isalpha():
        return rf"\{way}" if re.match(r"[\\\[\]\-./]", way) else way
    return "".join(_letter(character) for character in way)


def _letter(character: str) -> str:
    if character == "_":
        return "[-_ ]"
    return f"[{character}{character.upper()}]" if character.isalpha() else character
