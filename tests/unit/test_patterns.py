"""Which regular expressions are refused because they may take for ever."""

from __future__ import annotations

import pytest

from reflexarc import patterns


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\S|\S)*QQ",
        r"GRUB|(a|a)*b",
        r"(a+)+b",
        r"(?:ab|a.)+c",
        r".*.*.*.*x",
        r"\S+\S+\D+[^a]+b",
        "a" * 501,
        "(",
    ],
)
def test_what_may_take_for_ever_is_refused(pattern: str) -> None:
    assert patterns.problem(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    [r"^root@(\w+):", r"(foo|bar)$", r"^\s*foo.*bar\S+.*$", r"[^x]*y", r"(ab){2,8}", r"a?b+c*\d+ \w+ \s+"],
)
def test_what_is_bounded_may_be_used(pattern: str) -> None:
    assert patterns.problem(pattern) is None
