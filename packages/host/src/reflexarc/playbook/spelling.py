"""How keys may be written, as regular expressions that mean the same in Python and ECMAScript."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from itertools import combinations

from reflexarc.machine.keys import MODIFIERS, spellings
from reflexarc.machine.policy import chord_operation, is_destructive

# At the very end; `$` alone is before a last line break in Python, too.
END = r"$(?!\n)"
_TWINS = {key for key in MODIFIERS if key.endswith("_r")}


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
    """Matches those keys and chords that are a destructive operation."""
    return "|".join(f"^{''.join(map(_has, sorted(keys)))}" for keys in sorted(_power_chords(), key=sorted))


def _power_chords() -> set[frozenset[str]]:
    """The least sets of keys, right twins left out, that are a destructive operation when they are down together."""
    held = frozenset({"ctrl", "alt", "shift", "meta", "sysrq", "print"})
    keys = held | {key for key in spellings() if _is_destructive({*held, key})}
    found: set[frozenset[str]] = set()
    for size in (1, 2, 3):
        for some in map(frozenset, combinations(keys - _TWINS, size)):
            if _is_destructive(some) and not any(less <= some for less in found):
                found.add(some)
    return found


def _is_destructive(keys: Collection[str]) -> bool:
    operation = chord_operation(keys)
    return operation is not None and is_destructive(operation)


def _has(key: str) -> str:
    """A look-ahead for a chord that has the key or its right twin."""
    twins = {key, f"{key}_r"} & set(spellings())
    return rf"(?=(?:[\s\S]*\+)?{_one_of(twins)}(?:\+|{END}))"


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
