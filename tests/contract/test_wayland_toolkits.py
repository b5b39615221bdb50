"""Applications of every toolkit under sway: what they tell of places is where they are, what is typed arrives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop import page
from guests.desktop.wayland import SwaySession
from tests.contract.test_x11 import typeable
from tests.desktop import Driven, started
from tests.sway import placed

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.wayland.devices import Wayland


def chromium(sway: SwaySession, tree: Accessibility, folder: Path) -> Iterator[Driven]:
    process = sway.chromium(page.write(folder / "page.html", 20))
    driven = Driven(tree, process.pid)
    try:
        driven.wait(role="button", name="Build", timeout=60)
        yield driven
    finally:
        sway.end(process)


def shown(sway: SwaySession, tree: Accessibility, app: str, folder: Path) -> Iterator[Driven]:
    if app == "chromium":
        return chromium(sway, tree, folder)
    name, _, bar = app.partition(" ")
    return started(sway, tree, name, *(("3", bar) if bar else ()))


@pytest.fixture(scope="module", params=["tiled", "floating"])
def arranged(request: pytest.FixtureRequest) -> Iterator[tuple[SwaySession, Wayland, Accessibility]]:
    extra = (
        'for_window [title=".*"] floating enable, move position 120 90' if request.param != "tiled" else ""
    )
    with (
        SwaySession(extra=extra) as session,
        Wayland(session.environ) as display,
        Accessibility(session.environ, display) as tree,
    ):
        display.key("shift")
        yield session, display, tree


@pytest.mark.full
@pytest.mark.parametrize("app", ["gtk3", "gtk3 bar", "gtk4", "gtk4 bar", "qt6", "chromium"])
def test_elements_are_where_they_are_clicked(
    arranged: tuple[SwaySession, Wayland, Accessibility], tmp_path: Path, app: str
) -> None:
    session, display, tree = arranged
    for driven in shown(session, tree, app, tmp_path):
        frame = settled(driven, role="button", name="Build")
        display.click(frame["x"] + 2, frame["y"] + 2)
        driven.wait(name="built")


def settled(driven: Driven, **wanted: str) -> dict[str, float]:
    """The frame of an element once it stays the same: a window that was just opened is arranged in steps."""
    frames: list[dict[str, float]] = []
    while len(frames) < 20 or len({tuple(frame.items()) for frame in frames[-20:]}) > 1:
        frames.append(placed(driven, **wanted))
    return frames[-1]


@pytest.mark.full
def test_sixty_random_characters_are_typed_into_a_browser_ten_times_without_a_mistake(
    sway: SwaySession, wayland: Wayland, sway_tree: Accessibility, tmp_path: Path
) -> None:
    for driven in chromium(sway, sway_tree, tmp_path):
        entry = driven.ref(role="textbox", name="Name")
        for seed in range(10):
            text = typeable(60, seed)
            assert driven.run(driven.session.set_value(entry, text)).delivery == "delivered"
            assert driven.find(role="textbox", name="Name")[0]["value"] == text
