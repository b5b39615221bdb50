"""What an outline shows of a window that is scrolled: what is in sight, and nothing else, on each toolkit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guests.desktop.session import DesktopSession
from tests.desktop import Driven, started

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.x11.devices import X11

ROWS = 60


@pytest.fixture
def long(
    request: pytest.FixtureRequest, desktop: DesktopSession, accessibility: Accessibility
) -> Iterator[Driven]:
    yield from started(desktop, accessibility, request.param, str(ROWS))


def rows(driven: Driven) -> list[int]:
    """The numbers of the rows that the outline tells; GTK 3 lists a grid from its end."""
    told = [line for line in driven.outline() if '- text "Row ' in line]
    return sorted(int(line.split('"Row ')[1].split('"')[0]) for line in told)


def scrolled(driven: Driven, x11: X11) -> list[int]:
    """Scroll to the end; returns the rows that were told before."""
    first = rows(driven)
    assert first == list(range(len(first)))
    assert 1 <= len(first) < ROWS / 2
    (button,) = driven.find(role="button", name="Button 1")
    x11.pointer.move(button["frame"]["x"] + 5, button["frame"]["y"] + 5)
    x11.pointer.scroll(0, 100)
    return first


@pytest.mark.parametrize("long", ["gtk4", "qt6"], indirect=True)
def test_an_outline_tells_what_is_in_sight_also_after_scrolling(long: Driven, x11: X11) -> None:
    first = scrolled(long, x11)
    while (last := rows(long))[-1:] != [ROWS - 1]:
        pass
    assert not set(first) & set(last)
    assert last == list(range(last[0], ROWS))
    interactive = long.outline(interactive_only=True)
    assert any(f'"Button {ROWS - 1}"' in line for line in interactive)
    assert not any('"Button 0"' in line for line in interactive)


@pytest.mark.parametrize("long", ["gtk3"], indirect=True)
def test_gtk3_tells_no_longer_what_was_in_sight(long: Driven, x11: X11) -> None:
    first = scrolled(long, x11)
    while set(first) & set(rows(long)):
        pass
