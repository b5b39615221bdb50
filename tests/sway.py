"""A session under sway for tests, and what reads and drives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from guests.desktop.wayland import SwaySession
from tests.desktop import Driven

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.wayland.devices import Wayland
from reflexarc_agent.backends.linux.wayland.windows import Window

OUTPUTS = (
    "resolution 1280x1024 position 200 100",
    "resolution 800x600 scale 2 transform 90 position 1480 100",
)
FLOATING = 'for_window [title="GTK 4.*"] floating enable, border normal 3, move position 300 250'


@pytest.fixture(scope="session")
def sway() -> Iterator[SwaySession]:
    """Two outputs, of which one is scaled and turned; windows of GTK 4 float, others are tiled."""
    with SwaySession(OUTPUTS, FLOATING) as session:
        yield session


@pytest.fixture(scope="session")
def wayland(sway: SwaySession) -> Iterator[Wayland]:
    with Wayland(sway.environ) as display:
        # The seat has no keyboard of its own, and without one no window has the focus.
        display.key("shift")
        yield display


@pytest.fixture(scope="session")
def sway_tree(sway: SwaySession, wayland: Wayland) -> Iterator[Accessibility]:
    with Accessibility(sway.environ, wayland) as accessibility:
        yield accessibility


def window_of(wayland: Wayland, driven: Driven) -> Window:
    """The window of an application, once it is shown: its tree is there before."""
    while True:
        for window in wayland.windows.listed():
            if window.pid == driven.pid:
                return window


def placed(driven: Driven, **wanted: str) -> dict[str, float]:
    """The frame of an element, once its window has settled and it has one."""
    while not (frame := driven.find(**wanted)[0].get("frame")):
        continue
    return dict(frame)


__all__ = ["FLOATING", "OUTPUTS", "placed", "sway", "sway_tree", "wayland", "window_of"]
