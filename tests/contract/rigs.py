"""Machines that both drivers can offer, so that one test holds for both.

`menu`: off; switched on it shows GRUB's menu in VGA text, whose keys g, t and h change to graphics and to text,
and switch the machine off. `system`: switched on (it may be on already) it says READY on its console, echoes
lines typed on either keyboard, and obeys the power button.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, fields

import numpy as np

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.machine.capabilities import (
    BootOverride,
    Capabilities,
    Console,
    Freeze,
    Keyboard,
    KeyEvent,
    Pointer,
    Power,
    PowerState,
    Screen,
    Snapshot,
    VirtualMedia,
)
from reflexarc.machine.frame import Frame, Pixels

BAR = 0xA8A8A8
PATIENCE = 60.0


@dataclass(frozen=True)
class Machine:
    """Capabilities that are all there."""

    power: Power
    screen: Screen
    keyboard: Keyboard
    console: Console
    pointer: Pointer
    media: VirtualMedia
    boot: BootOverride
    snapshot: Snapshot
    freeze: Freeze

    @classmethod
    def of(cls, lent: Capabilities) -> Machine:
        assert lent.names() == tuple(field.name for field in fields(cls))
        return cls(**{name: getattr(lent, name) for name in lent.names()})


Rig = Callable[[], AbstractAsyncContextManager[Machine]]


def bar(frame: Frame) -> int | None:
    """The first row of the menu's selection bar, None where there is none."""
    bright = (frame.pixels == BAR).sum(axis=1) > frame.width * 0.8
    thick = np.convolve(bright, np.ones(8), "valid") == 8  # the frame's lines are not
    return int(thick.argmax()) if thick.any() else None


def is_menu(frame: Frame, width: int) -> bool:
    return frame.signal and frame.width == width and bar(frame) is not None


async def shown(screen: Screen, wanted: Callable[[Frame], bool]) -> Frame:
    """Wait for the frame."""
    async with asyncio.timeout(PATIENCE), aclosing(screen.frames()) as frames:  # type: ignore[type-var]
        async for frame in frames:
            if wanted(frame):
                return frame
    raise AssertionError("the frames ended")


async def said(console: Console, wanted: str, heard: str = "") -> str:
    """Wait for the text and return all that was read until then."""
    async with asyncio.timeout(PATIENCE):
        while wanted not in heard:
            heard += await console.read()
    return heard


async def stroke(keyboard: Keyboard, *keys: str) -> None:
    """Press and release the keys, one after the other, in one batch."""
    await keyboard.send([KeyEvent(key, down) for key in keys for down in (True, False)])


async def follows(machine: Machine) -> Frame:
    """Wait until the newest frame is what a screenshot shows, and return it."""
    newest: list[Frame] = []

    async def keep() -> None:
        async for frame in machine.screen.frames():
            newest[:] = [frame]

    keeping = asyncio.create_task(keep())
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                shot = await machine.screen.screenshot()
                if newest and np.array_equal(newest[0].pixels, shot.pixels):
                    return newest[0]
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def played(script: ReplayScript) -> Rig:
    @asynccontextmanager
    async def rig() -> AsyncIterator[Machine]:
        yield Machine.of(open_replay(script))

    return rig


def _picture(width: int, height: int, row: int) -> Pixels:
    pixels = np.zeros((height, width), np.uint32)
    pixels[row : row + 16] = BAR
    return pixels


def _on_key(key: str, *entries: Entry) -> Reaction:
    return Reaction(entries, key=key, repeat=True)


_MENU = Entry(frame=_picture(720, 400, 64))

PLAYED_MENU = ReplayScript(
    entries=(Entry(frame=np.zeros((480, 640), np.uint32)),),
    reactions=(
        *(Reaction((_MENU,), operation=f"power.{act}", repeat=True) for act in ("on", "reset", "cycle")),
        _on_key("g", Entry(frame=_picture(1024, 768, 75))),
        _on_key("t", _MENU),
        _on_key("h", Entry(power=PowerState.OFF)),
        Reaction((Entry(frame=_picture(720, 400, 80)),), key="down"),
        Reaction((Entry(frame=_picture(720, 400, 96)),), key="down"),
        Reaction((), operation="power.shutdown", repeat=True),
    ),
    power=PowerState.OFF,
)

PLAYED_SYSTEM = ReplayScript(
    reactions=(
        Reaction((Entry(serial="READY\r\n"),), operation="power.on", repeat=True),
        _on_key("enter", Entry(serial="keyboard [abc]\r\n")),
        Reaction((Entry(serial="serial [grüezi]\r\n"),), operation="console.write", repeat=True),
    ),
    power=PowerState.OFF,
)
