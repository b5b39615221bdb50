"""Waiting for what takes an application long to tell, and for what it is just making."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guests.desktop.session import DesktopSession
from tests.desktop import Driven

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.errors import TimedOutError


@pytest.fixture
def slow(desktop: DesktopSession, accessibility: Accessibility) -> Iterator[Driven]:
    process = desktop.app("slow")
    try:
        yield Driven(accessibility, process.pid)
    finally:
        desktop.end(process)


def test_what_takes_longer_to_read_than_a_wait_first_gives_is_seen(slow: Driven) -> None:
    assert slow.wait(name="Build", showing=False, timeout=60)["title"] == "Build"


def test_an_element_that_was_being_made_is_read_once_more(slow: Driven) -> None:
    assert slow.wait(role="button", name="Build", timeout=60)["role"] == "AXButton"


def test_what_was_not_reached_yet_is_not_told_to_be_gone(slow: Driven) -> None:
    slow.wait(name="Slow", timeout=60)
    with pytest.raises(TimedOutError, match="was not gone within"):
        slow.wait(name="Build", showing=False, gone=True, timeout=2.5)
