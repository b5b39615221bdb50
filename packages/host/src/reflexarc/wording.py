"""Words for people: how many there are of something, and words of others on one line of ours."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number and a noun, which takes an s for all but one: `1 machine`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
