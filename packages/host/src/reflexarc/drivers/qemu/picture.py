"""The newest picture of a screen, and those who wait for it to change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

import numpy as np

from reflexarc.drivers.qemu.pace import Pace
from reflexarc.machine.frame import Frame, Pixels

QUIET, QUIET_AT_MOST = 0.001, 0.015
# A screen that never rests, such as a log that scrolls, is not read at every one of QEMU's refreshes, which come
# each 30 ms; the lull is two of them and a little. A boot loader that draws its menu for a second is no such screen.
INTERVAL, BURST, LULL = 0.15, 32, 0.07


class Picture:
    """Holds the present pixels; hands copies to any number of readers, made when one asks."""

    def __init__(self) -> None:
        self._pixels: Pixels | None = None
        self._signal = True
        self._captured = 0.0
        self._number = 0
        self._version = 0
        self._frame: tuple[int, Frame] | None = None
        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self._dirty_since: float | None = None
        self._publishing: asyncio.TimerHandle | None = None
        self._pace = Pace(INTERVAL, BURST, LULL)

    @property
    def signal(self) -> bool:
        return self._signal

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height, None before the first picture."""
        return None if self._pixels is None else (self._pixels.shape[1], self._pixels.shape[0])

    def copy(self) -> Pixels:
        """The present pixels, to be written to. Raises ValueError before the first picture."""
        if self._pixels is None:
            raise ValueError("there is no picture yet")
        return self._pixels.copy()

    def replace(self, pixels: Pixels) -> int:
        """Take over a whole picture, with its array, and return how many pixels differ."""
        if self._pixels is not None and self._pixels.shape == pixels.shape:
            changed = int(np.count_nonzero(self._pixels != pixels))
        else:
            changed = pixels.size
        self._pixels = pixels
        return changed

    def patch(self, x: int, y: int, pixels: Pixels) -> bool:
        """Write pixels that fit at (x, y) and tell whether any differ."""
        if self._pixels is None:
            raise ValueError("there is no picture yet")
        height, width = pixels.shape
        place = self._pixels[y : y + height, x : x + width]
        if (place == pixels).all():
            return False
        place[...] = pixels
        return True

    def publish(self, *, signal: bool | None = None) -> None:
        """Let the readers have what was written since the last time."""
        self._captured = time.monotonic()
        self._pace.passed(self._captured)
        self._signal = self._signal if signal is None else signal
        self._version += 1
        self._dirty_since = None
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        self._wake()

    def publish_when_quiet(self) -> None:
        """Let the readers have it once nothing more has been written for a moment.

        QEMU pushes a screen row by row; who reads the first rows at once only holds up the rest. Of a screen that
        never rests the moment is longer.
        """
        now = time.monotonic()
        self._captured = now
        self._dirty_since = self._dirty_since or now
        if self._publishing is not None:
            self._publishing.cancel()
        delay = max(min(QUIET, self._dirty_since + QUIET_AT_MOST - now), self._pace.delay(now))
        self._publishing = asyncio.get_running_loop().call_later(delay, self._publish_written)

    def _publish_written(self) -> None:
        captured = self._captured
        self.publish()
        self._captured = captured

    def fail(self, error: BaseException) -> None:
        """End every reader, present and future, with the error."""
        self._error = self._error or error
        self._wake()

    def frame_of(self, pixels: Pixels, *, signal: bool) -> Frame:
        """A frame of pixels of its own, numbered after all before it; takes the array over."""
        return self._numbered(pixels, time.monotonic(), signal)

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield the present frame once there is one, then the newest whenever there is a newer."""
        seen = 0
        while True:
            if self._error is not None:
                raise self._error
            if self._version == seen:
                await self._changed.wait()
                continue
            seen = self._version
            yield self._present()

    def _present(self) -> Frame:
        if self._frame is None or self._frame[0] != self._version:
            frame = self._numbered(self.copy(), self._captured, self._signal)
            self._frame = (self._version, frame)
        return self._frame[1]

    def _numbered(self, pixels: Pixels, captured: float, signal: bool) -> Frame:
        pixels.flags.writeable = False
        self._number += 1
        return Frame(pixels, captured, self._number, signal)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
