"""The keys that characters are typed with on X11 where no key of the user's has them.

Browsers take the multimedia keys for commands, such as Back or Reload, whatever is on them a moment later.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from guests.desktop import page
from guests.desktop.session import DesktopSession
from tests.contract.test_x11 import typeable
from tests.desktop import Driven

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_agent.backends.linux.x11.display import Display


def keys(desktop: DesktopSession) -> list[str]:
    """What each key has on its first level, "" where it is unused."""
    told = subprocess.run(
        ["xmodmap", "-pke"], env=desktop.environ, capture_output=True, text=True, check=True
    )
    return [(line.partition("=")[2].split() or [""])[0] for line in told.stdout.splitlines()]


def test_only_unused_keys_are_lent_and_they_are_given_back() -> None:
    with DesktopSession(640, 480) as desktop, Display(desktop.environ["DISPLAY"]):
        before = keys(desktop)
        assert sum(name.startswith("XF86") for name in before) > 50
        with X11(desktop.environ["DISPLAY"]) as x11:
            # More than there are unused keys, and again: none is taken for one that the user has changed.
            for seed in range(3):
                x11.type(typeable(60, seed))
                lent = {old for old, new in zip(before, keys(desktop), strict=True) if old != new}
                assert lent == {""}
        assert keys(desktop) == before


def test_a_key_that_the_user_changes_is_typed_with_and_the_lent_ones_stay_lent() -> None:
    with DesktopSession(640, 480) as desktop, X11(desktop.environ["DISPLAY"]) as x11:
        before = keys(desktop)
        x11.type(typeable(60, 0))
        subprocess.run(["xmodmap", "-e", "keycode 10 = U6F22"], env=desktop.environ, check=True)
        x11.type("漢" + typeable(60, 1))
        changed = {(old, new) for old, new in zip(before, keys(desktop), strict=True) if old != new}
        assert ("1", "U6F22") in changed
        assert {old for old, _ in changed} == {"", "1"}
        assert [new for _, new in changed].count("U6F22") == 1


def test_keys_are_lent_before_they_are_pressed_and_the_first_new_one_is_told() -> None:
    with DesktopSession(640, 480) as desktop, X11(desktop.environ["DISPLAY"]) as x11:
        before = keys(desktop)
        assert x11.lend("plain, old") == 0
        assert keys(desktop) == before
        assert x11.lend("abжz漢") == 3
        lent = set(keys(desktop)) - set(before)
        assert lent == {"U0436", "U6F22"}
        assert x11.lend("жa漢") == 0
        assert x11.lend("ж漢é") == 3


class Late(X11):
    """Types what was on the keys before, once after each time that keys are lent."""

    late = ""

    def lend(self, text: str) -> int:
        first = super().lend(text)
        self.late = text[first - 1] if first else ""
        return first

    def type(self, text: str) -> None:
        if self.late and text.endswith(self.late):
            text, self.late = text[:-1] + "#", ""
        super().type(text)


@pytest.mark.full
def test_what_an_application_has_typed_by_keys_of_before_is_taken_back(
    desktop: DesktopSession, tmp_path: Path
) -> None:
    process = desktop.chromium(page.write(tmp_path / "page.html", 20))
    try:
        with Late(desktop.environ["DISPLAY"]) as x11, Accessibility(desktop.environ, x11) as tree:
            driven = Driven(tree, process.pid)
            driven.wait(role="button", name="Build", timeout=60)
            entry = driven.ref(role="textbox", name="Name")
            assert driven.run(driven.session.set_value(entry, typeable(40, 0))).delivery == "delivered"
            assert driven.find(role="textbox", name="Name")[0]["value"] == typeable(40, 0)
    finally:
        desktop.end(process)


@pytest.mark.full
def test_sixty_random_characters_are_typed_into_a_browser_ten_times_without_a_mistake(
    desktop: DesktopSession, accessibility: Accessibility, tmp_path: Path
) -> None:
    process = desktop.chromium(page.write(tmp_path / "page.html", 20))
    driven = Driven(accessibility, process.pid)
    try:
        driven.wait(role="button", name="Build", timeout=60)
        entry = driven.ref(role="textbox", name="Name")
        for seed in range(10):
            text = typeable(60, seed)
            assert driven.run(driven.session.set_value(entry, text)).delivery == "delivered"
            assert driven.find(role="textbox", name="Name")[0]["value"] == text
    finally:
        desktop.end(process)
