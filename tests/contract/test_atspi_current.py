"""A tree that events keep current is the one that a new reader reads: names, places, states, actions, order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from guests.desktop import page
from guests.desktop.session import DesktopSession
from tests.contract.test_atspi_differences import dumped, press
from tests.desktop import Driven, started

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.devices import X11

SETTLING = 20.0
"""Seconds that an application has to be laid out; read while that happens, two readers may differ."""


@pytest.fixture(params=["gtk3", "gtk4", "qt6"])
def app(
    request: pytest.FixtureRequest, desktop: DesktopSession, accessibility: Accessibility
) -> Iterator[Driven]:
    yield from started(desktop, accessibility, request.param)


def bare(node: dict[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """What a tree says of each element, in its order; each connection gives references of its own."""
    told = {name: value for name, value in node.items() if name not in ("ref", "children")}
    told.update(depth=depth, actions=list(node["actions"]))
    return [told, *(below for child in node["children"] for below in bare(child, depth + 1))]


def same(driven: Driven, desktop: DesktopSession, x11: X11) -> list[dict[str, Any]]:
    """What the tree of a connection that has read before says, once a new one reads the same; else the test fails."""
    end = time.monotonic() + SETTLING
    while True:
        kept = bare(dumped(driven)["tree"])
        with Accessibility(desktop.environ, x11) as accessibility:
            new = bare(dumped(Driven(accessibility, driven.pid))["tree"])
        if kept == new:
            return kept
        if time.monotonic() > end:
            assert [pair for pair in zip_longest(kept, new) if pair[0] != pair[1]] == []


def titles(told: list[dict[str, Any]]) -> list[str]:
    return [each["title"] for each in told if "title" in each]


def test_a_label_that_changes(app: Driven, desktop: DesktopSession, x11: X11) -> None:
    same(app, desktop, x11)
    for number in (1, 2):
        press(app, "Count")
        app.wait(name=f"counted {number}")
        assert f"counted {number}" in titles(same(app, desktop, x11))


def test_elements_that_come_between_others_and_go(
    own_gtk3: Driven, desktop: DesktopSession, x11: X11
) -> None:
    before = same(own_gtk3, desktop, x11)
    press(own_gtk3, "Add")
    own_gtk3.wait(role="button", name="Added")
    assert "Added" in titles(same(own_gtk3, desktop, x11))
    press(own_gtk3, "Rename")
    own_gtk3.wait(role="button", name="Renamed")
    assert "Renamed" in titles(same(own_gtk3, desktop, x11))
    press(own_gtk3, "Drop")
    own_gtk3.wait(name="Added", gone=True)
    assert titles(same(own_gtk3, desktop, x11)).count("Added") == titles(before).count("Added")


def test_a_window_that_comes_and_goes(own_gtk3: Driven, desktop: DesktopSession, x11: X11) -> None:
    same(own_gtk3, desktop, x11)
    press(own_gtk3, "Ask")
    own_gtk3.wait(text="Sure")
    assert "Sure?" in titles(same(own_gtk3, desktop, x11))
    press(own_gtk3, "OK")
    own_gtk3.wait(name="agreed")
    assert "Sure?" not in titles(same(own_gtk3, desktop, x11))


def test_a_window_that_is_moved_and_resized(own_gtk3: Driven, desktop: DesktopSession, x11: X11) -> None:
    before = same(own_gtk3, desktop, x11)
    (window,) = [known for known in x11.window_list() if known.pid == own_gtk3.pid]
    x11.move_window(int(window.id), Area(210, 120, 640, 480))
    after = same(own_gtk3, desktop, x11)
    assert after[1]["frame"]["w"] != before[1]["frame"]["w"]


@pytest.mark.full
@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_a_page_that_changes(
    browser: str, desktop: DesktopSession, accessibility: Accessibility, x11: X11, tmp_path: Path
) -> None:
    process = getattr(desktop, browser)(page.write(tmp_path / "page.html", 20))
    driven = Driven(accessibility, process.pid)
    try:
        driven.wait(role="button", name="Count", timeout=60)
        same(driven, desktop, x11)
        for number in (1, 2):
            press(driven, "Count")
            driven.wait(text=f"counted {number}")
            same(driven, desktop, x11)
    finally:
        desktop.end(process)
