"""Typing while the user's keyboard has another layout, and what is held down when a host is gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from guests.desktop.session import DesktopSession
from tests.agents import running
from tests.contract.test_x11 import typeable
from tests.desktop import Driven

from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_wire.replies import Done
from reflexarc_wire.requests import KeyDown, MouseDown

ASCII = "".join(map(chr, range(0x20, 0x7F)))
HELD = 0xFF & ~2 | 0x1F00
"""Modifiers, without Caps Lock, and buttons."""


@pytest.fixture(params=["us", "de", "fr", "us,ru", "de(neo)"])
def layout(request: pytest.FixtureRequest, desktop: DesktopSession) -> Iterator[str]:
    """Set while the display is open already, as a user does."""
    environ = {**os.environ, **desktop.environ}
    name, _, variant = request.param.removesuffix(")").partition("(")
    subprocess.run(["setxkbmap", "-layout", name, "-variant", variant], env=environ, check=True)
    yield request.param
    subprocess.run(["setxkbmap", "-layout", "us", "-variant", ""], env=environ, check=True)


def typed(gtk3: Driven, x11: X11, text: str) -> str:
    entry = gtk3.ref(name="Name")
    gtk3.run(gtk3.session.set_value(entry, ""))
    assert gtk3.run(gtk3.session.focus(entry)).delivery == "delivered"
    x11.type(text)
    return str(gtk3.wait(name="Name", value=text)["value"])


def test_any_text_is_typed_on_any_layout(layout: str, x11: X11, gtk3: Driven) -> None:
    for text in (ASCII, typeable(60, 7)):
        assert typed(gtk3, x11, text) == text
    x11.key("ctrl+a")
    x11.key("delete")
    gtk3.wait(name="Name", value="")


@pytest.mark.full
def test_sixty_random_characters_are_typed_twenty_times_on_any_layout(
    layout: str, x11: X11, gtk3: Driven
) -> None:
    for seed in range(20):
        assert typed(gtk3, x11, typeable(60, seed)) == typeable(60, seed)


def test_of_two_layouts_the_second_may_be_in_force(desktop: DesktopSession, x11: X11, gtk3: Driven) -> None:
    environ = {**os.environ, **desktop.environ}
    subprocess.run(["setxkbmap", "-layout", "us,ru"], env=environ, check=True)
    try:
        x11.keyboard.lock_layout(1)
        assert typed(gtk3, x11, ASCII) == ASCII
        assert x11.keyboard.layout() == 1
    finally:
        x11.keyboard.lock_layout(0)
        subprocess.run(["setxkbmap", "-layout", "us"], env=environ, check=True)


def test_nothing_stays_down_when_a_host_is_cut_off(desktop: DesktopSession, x11: X11, tmp_path: Path) -> None:
    with running(tmp_path / "agent.sock", extra=desktop.environ) as agent:
        for _ in range(5):
            with agent.host() as host:
                assert host.ask(KeyDown("shift")) == Done("delivered", False)
                assert host.ask(KeyDown("ctrl")) == Done("delivered", False)
                assert host.ask(MouseDown(5, 5)) == Done("delivered", False)
                assert x11.display.pointer()[2] & HELD == 0x105
            assert agent.until(lambda: x11.display.pointer()[2] & HELD == 0)
