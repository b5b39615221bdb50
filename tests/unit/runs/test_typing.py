"""Typing with read-back, on a console that loses and doubles keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sensing.render import VGA

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Capabilities, KeyEvent
from reflexarc.machine.frame import Frame
from reflexarc.machine.guard import Guard
from reflexarc.machine.keyboard import GuardedKeyboard
from reflexarc.machine.layouts import LAYOUTS
from reflexarc.machine.policy import Policy
from reflexarc.observation import ScreenText
from reflexarc.runs.typing import Typist, echoed, line_of, mistyped
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

CHARACTERS = {strokes[0]: character for character, strokes in LAYOUTS["us"].items()}
PROMPT = "root@lab:~# "


class BadConsole:
    """A text console whose line editor loses or doubles some of the keys; a screen and a keyboard.

    faults: for the number of a key that goes down, 0 where it is lost, 2 where it comes twice.
    """

    def __init__(self, faults: dict[int, int], *, prompt: str = PROMPT, echo: bool = True) -> None:
        self.line = ""
        self.entered: list[str] = []
        self._faults = faults
        self._prompt = prompt
        self._echo = echo
        self._count = 0
        self._shift = False
        self._number = 0
        self._changed = asyncio.Event()

    async def send(self, events: Sequence[KeyEvent]) -> None:
        for event in events:
            if event.key == "shift":
                self._shift = event.down
            elif event.down:
                self._count += 1
                for _ in range(self._faults.get(self._count, 1)):
                    self._key(event.key)
        self._changed.set()

    def _key(self, key: str) -> None:
        if key == "backspace":
            self.line = self.line[:-1]
        elif key == "enter":
            self.entered.append(self.line)
            self.line = ""
        else:
            self.line += CHARACTERS[("shift", key) if self._shift else (key,)]

    async def screenshot(self) -> Frame:
        shown = self._prompt + (self.line if self._echo else "")
        self._number += 1
        lines = ["Debian GNU/Linux 12 lab tty1", "", *(shown[i : i + 80] for i in range(0, len(shown), 80))]
        return Frame(VGA.pixels(lines), time.monotonic(), self._number)

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            yield await self.screenshot()
            await self._changed.wait()
            self._changed.clear()

    def source(self) -> str:
        return "a console of the test"


def typed(console: BadConsole, text: str) -> int:
    """Type and press Enter; how many corrections that took."""

    async def run() -> int:
        keyboard = GuardedKeyboard(console, Guard("lab", Policy()), "us")
        async with Watcher(Capabilities(screen=console), Ladder(load_recognisers()), "lab") as watcher:
            await watcher.fresh()
            typist = Typist(keyboard, watcher, "lab")
            await typist.type(text)
            await keyboard.press("enter")
            return typist.corrected

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("faults", "corrections"),
    [({}, 0), ({3: 0}, 1), ({3: 2}, 1), ({1: 0, 5: 2, 8: 0}, 1), ({2: 0, 36: 2}, 2)],
)
def test_lost_and_doubled_keys_are_put_right(faults: dict[int, int], corrections: int) -> None:
    console = BadConsole(faults)
    assert typed(console, "cat /etc/hostname") == corrections
    assert console.entered == ["cat /etc/hostname"]


def test_a_text_longer_than_the_line() -> None:
    text = "echo " + "0123456789" * 9
    console = BadConsole({40: 0})
    assert typed(console, text) == 1
    assert console.entered == [text]


def test_a_console_without_echo_is_left_at_that() -> None:
    console = BadConsole({3: 0}, prompt="Password:", echo=False)
    assert typed(console, "sesame") == 0
    assert console.entered == ["seame"]


def test_where_it_cannot_be_put_right_no_enter_is_pressed() -> None:
    console = BadConsole(dict.fromkeys(range(2, 400, 9), 0))
    with pytest.raises(OperationRejectedError, match="no Enter was pressed"):
        typed(console, "cat /etc/hostname")
    assert console.entered == []


@pytest.mark.parametrize(
    "shown", ["*****************", "[ 12.3] usb 1-1: new device", "", "cat /etc/hostname.d"]
)
def test_what_is_something_else_is_not_erased(shown: str) -> None:
    assert not mistyped("cat /etc/hostname", shown)


words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=100)


@given(words, words.map(lambda w: w[:20] + "$"), st.integers(20, 90))
def test_what_was_echoed_is_found_over_line_breaks(text: str, prompt: str, width: int) -> None:
    before = ScreenText(("login", prompt), columns=width)
    line = line_of(before)
    assert line is not None
    whole = prompt + text
    rows = tuple(whole[i : i + width] for i in range(0, len(whole), width))
    if len(prompt) < width:
        assert echoed(ScreenText(("login", *rows), columns=width), line) == text
        assert echoed(ScreenText(rows, columns=width), line) == text
