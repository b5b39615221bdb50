"""Plays a script: the present state of the machine, and what was sent to it."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from reflexarc.drivers.replay.script import Agent, Entry, Fault, Reaction, ReplayGuest, ReplayScript
from reflexarc.errors import (
    ConnectError,
    ConnectionLostError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
)
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import MAX_PIXELS, Frame, Pixels, pixels_of


@dataclass(frozen=True, slots=True)
class Sent:
    """One thing that the machine was sent.

    at: `time.monotonic()`. operation: `key.down`, `key.up`, `console.write`, those of `devices.py` or a power
    operation. detail: the key, the text, or what else belongs to it.
    """

    at: float
    operation: str
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Saved:
    """What a machine can go back to."""

    pixels: Pixels | None
    attached: bool


class Player:
    """The machine. `frame` is None before the first picture; `unread` is what its console said since last read.

    starts: how often it was switched on or reset. frozen: it plays nothing. agent, elements: the inside of the guest;
    tree_version: how often these became others.
    """

    def __init__(self, script: ReplayScript, machine: str) -> None:
        self.machine = machine
        self.sent: list[Sent] = []
        self.power = script.power
        self.frame: Frame | None = None
        self.unread = ""
        self.starts = 0
        self.frozen = False
        guest = script.guest or ReplayGuest()
        self.agent = guest.agent
        self.elements = guest.elements or ()
        self.tree_version = 0
        self._script = script
        self._pixels: Pixels | None = None
        self._attached = True
        self._number = 0
        self._order = 0
        self._due: list[tuple[float, int, Entry]] = []
        self._reactions = list(script.reactions)
        self._calls: Counter[str] = Counter()
        self._played = 0.0
        self._started: float | None = None
        self._changed = asyncio.Event()
        for entry in script.entries:
            self._schedule(entry.at, entry)

    @property
    def signal(self) -> bool:
        return self._attached and self.power is not PowerState.OFF

    def play(self, entry: Entry) -> None:
        """Let an entry happen now, whatever its time."""
        if entry.power is not None:
            self.starts += entry.power is PowerState.ON
            self.power = entry.power
        if entry.signal is not None:
            self._attached = entry.signal
        if entry.serial is not None:
            self.unread += entry.serial
        if entry.frame is not None:
            self._pixels = self._load(entry.frame)
        if entry.elements is not None or entry.agent is not None:
            self.elements = self.elements if entry.elements is None else entry.elements
            self.agent = entry.agent or self.agent
            self.tree_version += 1
        self._show()
        self._tell()

    async def inside(self, operation: str) -> None:
        """Reach the inside of the guest: raises ConnectError where nothing answers, never returns where it hangs."""
        self.catch_up()
        if self.agent is Agent.ABSENT:
            raise ConnectError(
                "nothing inside of the guest answers; wait until its agent runs",
                machine=self.machine,
                operation=operation,
            )
        if self.agent is Agent.HANGS:
            await asyncio.Event().wait()

    def freeze(self, frozen: bool) -> None:
        """Stop playing, or go on where it stopped."""
        if frozen and not self.frozen:
            self.catch_up()
            self._played = self._now()
        elif self.frozen and not frozen and self._script.speed > 0:
            self._started = time.monotonic() - self._played / self._script.speed
        self.frozen = frozen
        self._tell()

    def require_running(self, operation: str) -> None:
        """Raise OperationRejectedError, with the code `not running`, while the machine is frozen."""
        if self.frozen:
            raise OperationRejectedError(
                "it takes no input while it is frozen; thaw it",
                machine=self.machine,
                operation=operation,
                code="not running",
            )

    def present(self) -> Saved:
        """What the machine shows, to go back to."""
        return Saved(self._pixels, self._attached)

    def go_back(self, saved: Saved) -> None:
        """Show what was shown then; the machine is on."""
        self.power = PowerState.ON
        self._pixels, self._attached = saved.pixels, saved.attached
        self._show()
        self._tell()

    def catch_up(self) -> None:
        """Play what is due by the clock; at speed 0, and while the machine is frozen, nothing ever is."""
        if self._script.speed > 0 and not self.frozen:
            now = self._now()
            while self._due and self._due[0][0] <= now:
                self._play_next()

    async def advance(self) -> None:
        """Wait until something happens; at speed 0 the next entry does at once."""
        if self.frozen:
            await self._changed.wait()
            return
        if self._due and self._script.speed == 0:
            self._play_next()
            await asyncio.sleep(0)
            return
        patience = (self._due[0][0] - self._now()) / self._script.speed if self._due else None
        try:
            async with asyncio.timeout(patience):
                await self._changed.wait()
        except TimeoutError:
            self.catch_up()

    def note(self, operation: str, detail: str = "") -> None:
        """Write down an input."""
        self.sent.append(Sent(time.monotonic(), operation, detail))

    def receive(self, operation: str, detail: str = "") -> bool:
        """Write down an input, release what reacts to it and tell whether anything does."""
        self.catch_up()
        self.note(operation, detail)
        reaction = next((r for r in self._reactions if _matches(r, operation, detail)), None)
        if reaction is not None:
            if not reaction.repeat:
                self._reactions.remove(reaction)
            now = self._now()
            for entry in reaction.entries:
                self._schedule(now + entry.at, entry)
        if self._script.speed == 0 and self._due and not self.frozen:
            self._play_next()
        self.catch_up()
        return reaction is not None

    def fault(self, operation: str) -> Fault | None:
        """How this call of the operation fails; HANG and LOSE_AFTER are the caller's to carry out.

        Raises OperationRejectedError and ConnectionLostError for the two that have no effect.
        """
        number = self._calls[operation]
        self._calls[operation] += 1
        faults = self._script.faults.get(operation, ())
        fault = faults[number] if number < len(faults) else None
        if fault is Fault.REJECT:
            raise OperationRejectedError(
                f"the script rejects {operation}",
                machine=self.machine,
                operation=operation,
                code="scripted",
                detail="rejected by the script",
            )
        if fault is Fault.LOSE_BEFORE:
            raise self.lost(operation)
        return fault

    def lost(self, operation: str) -> ConnectionLostError:
        """The error of a connection that the script breaks."""
        return ConnectionLostError(
            f"the script breaks the connection at {operation}; look at the machine before repeating it",
            machine=self.machine,
            operation=operation,
        )

    def unfollowed(self, operation: str) -> OperationTimeoutError:
        """The error of an operation that nothing followed."""
        return OperationTimeoutError(
            f"{operation} was taken and nothing followed", machine=self.machine, operation=operation
        )

    def numbered(self, pixels: Pixels) -> Frame:
        """A frame of its own, numbered after all before it."""
        self._number += 1
        return Frame(pixels, time.monotonic(), self._number, self.signal)

    def screenshot(self) -> Frame:
        """A frame of what is shown now, black where nothing was shown yet."""
        self.catch_up()
        return self.numbered(
            _frozen(np.zeros((400, 720), np.uint32)) if self._pixels is None else self._pixels
        )

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _show(self) -> None:
        """Make a new frame where the picture or the signal differs from the present one."""
        if self._pixels is None:
            return
        shown = self.frame
        if shown is None or shown.signal != self.signal or not np.array_equal(shown.pixels, self._pixels):
            self.frame = self.numbered(self._pixels)

    def _load(self, picture: Pixels | Path) -> Pixels:
        if not isinstance(picture, Path):
            return _frozen(picture.astype(np.uint32))
        try:
            with Image.open(picture) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise ValueError("more than 64 megapixels")
                return _frozen(pixels_of(image))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise PeerProtocolError(
                f"the recorded frame {picture} can't be read: {error}", machine=self.machine
            ) from error

    def _now(self) -> float:
        """Seconds played so far."""
        if self._script.speed == 0 or self.frozen:
            return self._played
        if self._started is None:
            self._started = time.monotonic()
        return (time.monotonic() - self._started) * self._script.speed

    def _schedule(self, at: float, entry: Entry) -> None:
        self._order += 1
        heapq.heappush(self._due, (at, self._order, entry))

    def _play_next(self) -> None:
        self._played, _, entry = heapq.heappop(self._due)
        self.play(entry)


def _matches(reaction: Reaction, operation: str, detail: str) -> bool:
    if operation == "key.down" and reaction.key == detail:
        return True
    return reaction.operation in (operation, f"{operation}:{detail}")


def _frozen(pixels: Pixels) -> Pixels:
    pixels.flags.writeable = False
    return pixels
