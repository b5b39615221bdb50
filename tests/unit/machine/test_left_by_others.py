"""What a program that was killed left down is let go before another one's pointer does anything with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reflexarc.drivers.replay.driver import ReplayCapabilities, open_replay
from reflexarc.drivers.replay.script import ReplayScript
from reflexarc.machine.capabilities import Button
from reflexarc.machine.chords import Kept, KeysDown
from reflexarc.machine.guard import Guard
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy

Act = Callable[[Machine], Awaitable[None]]
ACTS: dict[str, Act] = {
    "move": lambda machine: machine.pointer.move(7, 7),
    "click": lambda machine: machine.pointer.click(7, 7),
    "double click": lambda machine: machine.pointer.double_click(7, 7, "right"),
    "drag": lambda machine: machine.pointer.drag(7, 7, 9, 9),
    "down": lambda machine: machine.pointer.down(7, 7),
    "up": lambda machine: machine.pointer.up(7, 7),
    "scroll": lambda machine: machine.pointer.scroll(0, 1),
}
LEFT: dict[str, list[Act]] = {
    "keys": [lambda machine: machine.keyboard.down("ctrl"), lambda machine: machine.keyboard.down("alt")],
    "buttons": [
        lambda machine: machine.pointer.down(1, 1, Button.LEFT),
        lambda machine: machine.pointer.down(1, 1, Button.RIGHT),
    ],
    "both": [
        lambda machine: machine.keyboard.down("shift"),
        lambda machine: machine.pointer.down(1, 1, Button.MIDDLE),
    ],
}


def program(lent: ReplayCapabilities, folder: Path) -> Machine:
    return Machine(
        "lab",
        lent,
        Guard("lab", Policy()),
        keys_down=KeysDown(folder / "keys-down"),
        buttons_down=Kept(folder / "buttons-down"),
    )


def held(lent: ReplayCapabilities, until: int) -> set[str]:
    """What is down on the machine after so many of the events that it was sent."""
    down: set[str] = set()
    for sent in lent.sent[:until]:
        kind, _, way = sent.operation.partition(".")
        if kind in ("key", "pointer") and way in ("down", "up"):
            (down.add if way == "down" else down.discard)(f"{kind} {sent.detail}")
    return down


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("act", ACTS)
def test_a_pointer_acts_with_nothing_that_others_left_down(tmp_path: Path, left: str, act: str) -> None:
    lent = open_replay(ReplayScript(), machine="lab")

    async def run() -> int:
        killed = program(lent, tmp_path)
        for one in LEFT[left]:
            await one(killed)
        assert len(held(lent, len(lent.sent))) == 2
        begun = len(lent.sent)
        await ACTS[act](program(lent, tmp_path))
        return begun

    begun = asyncio.run(run())
    first = next(i for i, sent in enumerate(lent.sent) if i >= begun and not sent.operation.endswith(".up"))
    assert held(lent, first) == set()


def test_a_program_keeps_what_it_holds_itself(tmp_path: Path) -> None:
    lent = open_replay(ReplayScript(), machine="lab")

    async def run() -> None:
        machine = program(lent, tmp_path)
        await machine.keyboard.down("shift")
        await machine.pointer.down(1, 1)
        await machine.pointer.move(7, 7)
        assert len(held(lent, len(lent.sent))) == 2
        await machine.pointer.up(7, 7)
        await machine.keyboard.up("shift")
        assert Kept(tmp_path / "buttons-down").read() == ()
        assert KeysDown(tmp_path / "keys-down").read().down == frozenset()

    asyncio.run(run())
