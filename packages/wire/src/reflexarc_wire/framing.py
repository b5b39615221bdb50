"""Lines of JSON, cut from a byte stream and read within bounds.

Nothing a peer sends makes these functions raise anything but WireError, recurse deeply, or hold more memory than
a small multiple of the line's limit.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Dict, Mapping, Optional

from reflexarc_wire.errors import WireError

_MAX_DIGITS = 64
_STRINGS = re.compile(rb'"[^"]*"?')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = bytes(set(range(256)) - set(b"{}[]"))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Limits:
    """How much one line may hold: bytes, levels of nesting, and values."""

    line: int
    depth: int
    values: int


FROM_HOST = Limits(line=1 << 20, depth=64, values=100_000)
# A level of an accessibility tree is two of JSON, and 64 of them are read.
FROM_GUEST = Limits(line=32 << 20, depth=160, values=2_000_000)


class LineReader:
    """Cuts a stream into lines, holding no more than one line and what was fed last."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Optional[bytes]:
        """Return the next whole line without its newline, or None until more is fed.

        Raises WireError on a line above the limit; the stream is of no use from there on.
        """
        end = self._buffer.find(b"\n", self._searched)
        if (len(self._buffer) if end < 0 else end) > self._limits.line:
            raise WireError(f"a line of more than {self._limits.line} bytes")
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = self._cut(end)
        del self._buffer[:1]
        self._searched = 0
        return line

    def take(self, size: int) -> bytes:
        """Return the next bytes as they are, at most `size` and no more than were fed."""
        return self._cut(min(size, len(self._buffer)))

    def _cut(self, size: int) -> bytes:
        with memoryview(self._buffer) as view:
            cut = bytes(view[:size])
        del self._buffer[:size]
        return cut


def read_line(line: bytes, limits: Limits) -> Dict[str, object]:
    """Read one line as a JSON object; raises WireError where it isn't one or is beyond the limits."""
    _check_shape(line, limits)
    try:
        text = line.decode("utf-8")
        value = _DECODER.decode(text)
        if _SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise WireError(f"a line that is no JSON in UTF-8 ({_short(error)})") from error
    if not isinstance(value, dict):
        raise WireError("a line that is no JSON object")
    return value


def write_line(values: Mapping[str, object]) -> bytes:
    """Write an object as one line; characters that UTF-8 can't carry become question marks."""
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise WireError(f"a message that JSON can't carry ({_short(error)})") from error
    return text.encode("utf-8", "replace") + b"\n"


def _check_shape(line: bytes, limits: Limits) -> None:
    """Refuse deep nesting and a flood of values before the parser sees them, in time linear in the line."""
    opened = line.count(b"[") + line.count(b"{")
    if opened <= limits.depth and opened + line.count(b",") <= limits.values:
        return
    outside = _STRINGS.sub(b"", line.replace(b"\\\\", b"").replace(b'\\"', b""))
    brackets = outside.translate(_BRACKETS, _NO_BRACKET)
    if outside.count(b",") + len(brackets) // 2 > limits.values:
        raise WireError(f"a line of more than {limits.values} values")
    for _ in range(limits.depth):
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise WireError(f"a line nested deeper than {limits.depth} levels, or with unmatched brackets")


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number of too many digits")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits) if len(digits) <= _MAX_DIGITS else math.inf
    if not math.isfinite(number):
        raise ValueError("a number that is too large or too long")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _short(error: BaseException) -> str:
    return str(error)[:120] or type(error).__name__


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=_constant)
