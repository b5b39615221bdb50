"""Capabilities that several drivers lend as one: each call takes the first way that is ready.

Only a picture, which changes nothing, is asked for elsewhere when a way fails with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from reflexarc.errors import MachineError
from reflexarc.machine.capabilities import (
    Button,
    Capabilities,
    Command,
    Exited,
    Files,
    Keyboard,
    KeyEvent,
    Output,
    Pointer,
    Power,
    PowerState,
    Screen,
    Shell,
)
from reflexarc.machine.frame import Frame
from reflexarc.machine.reach import RETRY, Lent, Reach, Way, Ways, is_unsent, streamed

T = TypeVar("T")


def route(lent: Sequence[Lent]) -> Capabilities:
    """Merge what drivers lend, in their order; what several ways into a guest offer takes the first that is ready."""
    merged = Capabilities()
    for one in lent:
        merged = merged.merged_with(one.capabilities)
    reaches = [one.reach for one in lent if one.reach is not None]
    pixels = sorted(lent, key=lambda one: one.pixels_last)
    shells = _ways(lent, "exec", lambda c: c.shell)
    files = _ways(lent, "files", lambda c: c.files)
    screens = _ways(pixels, "screen", lambda c: c.screen)
    keyboards = _ways(pixels, "input", lambda c: c.keyboard)
    pointers = _ways(pixels, "input", lambda c: c.pointer)
    return replace(
        merged,
        power=RefreshingPower(merged.power, reaches) if merged.power and reaches else merged.power,
        shell=_only(shells) or (RoutedShell(shells) if shells else None),
        files=_only(files) or (RoutedFiles(files) if files else None),
        screen=_device(screens) or (RoutedScreen(screens) if screens else None),
        keyboard=_only(keyboards) or (RoutedKeyboard(keyboards) if keyboards else None),
        pointer=_only(pointers) or (RoutedPointer(pointers) if pointers else None),
    )


class RoutedShell:
    """Commands by the first way that is ready; implements `Shell`."""

    def __init__(self, ways: Ways[Shell]) -> None:
        self._ways = ways

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        async with aclosing(streamed(self._ways, lambda shell: shell.run(command))) as pieces:
            async for piece in pieces:
                yield piece


class RoutedFiles:
    """Files by the first way that is ready; implements `Files`."""

    def __init__(self, ways: Ways[Files]) -> None:
        self._ways = ways

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        async with aclosing(streamed(self._ways, lambda files: files.read(path))) as pieces:
            async for piece in pieces:
                yield piece

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        taken = _Taken(pieces)
        # What one way was given of the pieces is not there for the next.
        await self._ways.take(
            lambda files: files.write(path, taken, mode=mode),
            lambda error: is_unsent(error) and not taken.begun,
        )


class RoutedScreen:
    """Pictures by the first way that is ready, by another where it fails; implements `Screen`."""

    def __init__(self, ways: Ways[Screen]) -> None:
        self._ways = ways
        self._number = 0
        self._source = ways.ways[0].to.source()

    async def screenshot(self) -> Frame:
        async def shoot(screen: Screen) -> Frame:
            frame = await screen.screenshot()
            self._source = screen.source()
            return frame

        return self._numbered(await self._ways.take(shoot, lambda error: True))

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Frames by the first way that is ready; while none is, one without a signal."""
        while True:
            async with aclosing(self._ways.choose()) as ready:
                async for way in ready:
                    self._source = way.to.source()
                    with suppress(MachineError):
                        async for frame in way.to.frames():
                            yield self._numbered(frame)
            yield self._numbered(Frame(np.zeros((480, 640), np.uint32), time.monotonic(), 0, signal=False))
            await asyncio.sleep(RETRY)
            self._ways.refresh()

    def source(self) -> str:
        return self._source

    def _numbered(self, frame: Frame) -> Frame:
        """The frame with a number of one row, whichever screen it is of."""
        self._number += 1
        return replace(frame, number=self._number)


class RoutedKeyboard:
    """Keys by the first way that is ready; implements `Keyboard`."""

    def __init__(self, ways: Ways[Keyboard]) -> None:
        self._ways = ways

    async def send(self, events: Sequence[KeyEvent]) -> None:
        await self._ways.take(lambda keyboard: keyboard.send(events))


class RoutedPointer:
    """The pointer by the first way that is ready; implements `Pointer`."""

    def __init__(self, ways: Ways[Pointer]) -> None:
        self._ways = ways

    async def move(self, x: int, y: int) -> None:
        await self._ways.take(lambda pointer: pointer.move(x, y))

    async def button(self, button: Button, down: bool) -> None:
        await self._ways.take(lambda pointer: pointer.button(button, down))

    async def scroll(self, dx: int, dy: int) -> None:
        await self._ways.take(lambda pointer: pointer.scroll(dx, dy))


class RefreshingPower:
    """Power after whose acts the ways into the guest are looked at anew; implements `Power`."""

    def __init__(self, power: Power, reaches: Sequence[Reach]) -> None:
        self._power = power
        self._reaches = reaches

    async def state(self) -> PowerState:
        return await self._power.state()

    async def on(self) -> None:
        await self._then_refresh(self._power.on())

    async def off(self) -> None:
        await self._then_refresh(self._power.off())

    async def shutdown(self, timeout: float) -> None:
        await self._then_refresh(self._power.shutdown(timeout))

    async def reset(self) -> None:
        await self._then_refresh(self._power.reset())

    async def cycle(self) -> None:
        await self._then_refresh(self._power.cycle())

    async def _then_refresh(self, act: Awaitable[None]) -> None:
        try:
            await act
        finally:
            for reach in self._reaches:
                reach.refresh()


@dataclass
class _Taken:
    """Pieces of which it is known whether any was asked for."""

    pieces: AsyncIterator[bytes]
    begun: bool = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.begun = True
        return await anext(self.pieces)


def _ways(lent: Sequence[Lent], feature: str, of: Callable[[Capabilities], T | None]) -> Ways[T]:
    """The ways to a capability; after one that can always be asked, none is needed."""
    ways: list[Way[T]] = []
    for one in lent:
        found = of(one.capabilities)
        if found is not None:
            ways.append(Way(feature, found, one.reach))
            if one.reach is None:
                break
    return Ways(tuple(ways))


def _only(ways: Ways[T]) -> T | None:
    """The capability itself, where there is one way to it."""
    return ways.ways[0].to if len(ways.ways) == 1 else None


def _device(screens: Ways[Screen]) -> Screen | None:
    """The screen itself, where it is a device's, which is there as long as the machine."""
    return screens.ways[0].to if screens.ways and screens.ways[0].reach is None else None
