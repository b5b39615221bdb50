"""What a machine can do and tell: one Protocol a capability, lent by drivers in a frozen value.

A driver implements these and nothing more. Guarding, typing, timing and merging happen above it, once.
Every method raises the errors of `reflexarc.errors.MachineError` and no others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Protocol

from reflexarc.machine.frame import Frame


class PowerState(StrEnum):
    """Whether the machine runs, in the device's own words; UNKNOWN where it can't tell."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A key going down or up; `key` is a canonical name of `reflexarc.machine.keys`."""

    key: str
    down: bool


class Power(Protocol):
    """Mains power and reset. Each act returns when the device reports the new state, or raises.

    Raises OperationTimeoutError when the device took the act and the state did not follow.
    """

    async def state(self) -> PowerState: ...

    async def on(self) -> None: ...

    async def off(self) -> None:
        """Cut the power at once, whatever runs."""
        ...

    async def shutdown(self, timeout: float) -> None:
        """Ask the operating system to shut down (the power button) and wait until the machine is off."""
        ...

    async def reset(self) -> None: ...

    async def cycle(self) -> None:
        """Cut the power and switch on again; on a machine that is off, switch on."""
        ...


class Screen(Protocol):
    """The picture. Frames of one screen have rising numbers."""

    async def screenshot(self) -> Frame:
        """Take a frame of its own, captured after the call."""
        ...

    def frames(self) -> AsyncIterator[Frame]:
        """Yield the present frame, then one whenever the picture has changed.

        Push where the device can push, adaptive polling where it can't. A slow reader gets the newest frame,
        never a backlog. Ends with an error when the device is gone.
        """
        ...

    def source(self) -> str:
        """How frames are had, in a few words for `observe --explain` ("D-Bus display, pushed")."""
        ...


class Keyboard(Protocol):
    """Keys by their place on the board; layouts, holds and texts are worked out above."""

    async def send(self, events: Sequence[KeyEvent]) -> None:
        """Deliver the events in order, at once."""
        ...


class Console(Protocol):
    """The serial console as text."""

    async def read(self) -> str:
        """Wait until there is text not yet read and return it; control sequences are left in."""
        ...

    async def write(self, data: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one driver lends; None where it has nothing of the kind."""

    power: Power | None = None
    screen: Screen | None = None
    keyboard: Keyboard | None = None
    console: Console | None = None

    def names(self) -> tuple[str, ...]:
        """Names of what is there, in the order of the fields."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not None)

    def merged_with(self, later: Capabilities) -> Capabilities:
        """These, filled up from `later` where there is nothing."""
        return Capabilities(
            power=self.power or later.power,
            screen=self.screen or later.screen,
            keyboard=self.keyboard or later.keyboard,
            console=self.console or later.console,
        )
