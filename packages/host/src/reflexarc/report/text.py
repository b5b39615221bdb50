"""Text from machines, made safe to put into a document, and values in words."""

from __future__ import annotations

import re
import unicodedata
from html import escape

# Source: ECMA-48, control sequences (CSI), operating system commands (OSC) and other escapes.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")


def clean(text: str) -> str:
    """The text without control sequences and characters; newlines and tabs stay.

    What remains may stand in XML 1.0 and in HTML once it is escaped; direction marks, which could make a line
    read otherwise than it is, go too.
    """
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def bounded(text: str, limit: int) -> str:
    """The clean text, its end cut off where it would take more than `limit` bytes once escaped."""
    whole = clean(text)
    kept = whole[:limit]
    while (size := len(escape(kept).encode())) > limit:
        kept = kept[: len(kept) * limit // size]
    return kept if len(kept) == len(whole) else kept + "…"


def one_line(text: str, limit: int) -> str:
    """The clean text on one line, bounded."""
    return bounded(" ".join(text.split()), limit)


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would name: `42 ms`, `0.42 s`, `42.1 s`, `12 min 05 s`, `1 h 02 min`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(seconds: float) -> str:
    """A moment of the run as on a stop-watch: `0:03.2`, `1:02:07`."""
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths // 10, 60)
    if minutes >= 60:
        return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}.{tenths % 10}"
