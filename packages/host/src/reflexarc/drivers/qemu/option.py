"""Values in QEMU's comma-separated options."""

from __future__ import annotations


def escaped(value: object) -> str:
    """Return the value with its commas doubled, so that none of them ends it."""
    return str(value).replace(",", ",,")
