"""Type signatures, split into complete types.

Source: D-Bus specification, "Type System" (at most 255 bytes, 32 arrays and 32 structures deep).
"""

from __future__ import annotations

from functools import lru_cache

from reflexarc_agent.backends.linux.dbus.errors import FormatError

LENGTH, DEPTH = 255, 32
BASIC = "ybnqiuxtdsogh"


@lru_cache(maxsize=1024)
def complete_types(signature: str) -> tuple[str, ...]:
    """Split a signature into its complete types; raises FormatError where it isn't one."""
    if len(signature) > LENGTH:
        raise FormatError(f"a signature of {len(signature)} characters")
    types, start = [], 0
    while start < len(signature):
        end = _end(signature, start, 0, 0)
        types.append(signature[start:end])
        start = end
    return tuple(types)


def _end(signature: str, start: int, arrays: int, structures: int) -> int:
    """Where the complete type that begins at `start` ends."""
    code = signature[start : start + 1]
    if code and code in BASIC + "v":
        return start + 1
    if code == "a" and arrays < DEPTH:
        if signature[start + 1 : start + 2] == "{":
            return _entry_end(signature, start + 1, arrays + 1, structures)
        return _end(signature, start + 1, arrays + 1, structures)
    if code == "(" and structures < DEPTH:
        at = start + 1
        while signature[at : at + 1] != ")":
            at = _end(signature, at, arrays, structures + 1)
        if at > start + 1:
            return at + 1
    raise FormatError(f"not a signature: {signature!r}")


def _entry_end(signature: str, start: int, arrays: int, structures: int) -> int:
    """Where the dictionary entry that begins at `start` ends: a basic key and one value."""
    key = signature[start + 1 : start + 2]
    if key and key in BASIC and structures < DEPTH:
        at = _end(signature, start + 2, arrays, structures + 1)
        if signature[at : at + 1] == "}":
            return at + 1
    raise FormatError(f"not a signature: {signature!r}")
