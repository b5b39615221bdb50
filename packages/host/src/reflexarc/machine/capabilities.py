"""What a machine can do and tell: one Protocol a capability, lent by drivers in a frozen value.

A driver implements these and nothing more. Guarding, typing, timing and merging happen above it, once.
Every method raises the errors of `reflexarc.errors.MachineError` and no others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Protocol

from reflexarc.machine.accessibility import Accessibility
from reflexarc.machine.frame import Frame


class PowerState(StrEnum):
    """Whether the machine runs, in the device's own words; UNKNOWN where it can't tell."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Button(StrEnum):
    """A button of a mouse."""

    LEFT = "left"
    MIDDLE = "middle"
    RIGHT = "right"


class BootDevice(StrEnum):
    """What a machine is told to start from; NONE leaves it to the machine's own order."""

    CDROM = "cdrom"
    DISK = "disk"
    NETWORK = "network"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BootSetting:
    """The boot device that is set; `once`: for the next start only."""

    device: BootDevice = BootDevice.NONE
    once: bool = False


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state of a machine; `taken` is its time, in seconds since 1970."""

    name: str
    taken: float


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A key going down or up; `key` is a canonical name of `reflexarc.machine.keys`."""

    key: str
    down: bool


class Stream(StrEnum):
    """Where a command writes."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Command:
    """A command for a guest: `line` for its account's shell or, where that is empty, `argv` without any shell.

    env: variables beside those that the guest gives. timeout: seconds after which the guest ends the command.
    """

    line: str = ""
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what a command wrote."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """A command has ended; a signal's status is 128 and its number."""

    status: int


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


class Pointer(Protocol):
    """A pointer that goes where it is told, in pixels of the present frame, origin at the top left."""

    async def move(self, x: int, y: int) -> None:
        """Raises OperationRejectedError where (x, y) is not on the screen."""
        ...

    async def button(self, button: Button, down: bool) -> None: ...

    async def scroll(self, dx: int, dy: int) -> None:
        """Turn the wheel by lines, to the right and down where positive.

        Raises OperationRejectedError where the device has no such wheel.
        """
        ...


class VirtualMedia(Protocol):
    """A drive whose medium is an image on the host, or one that the device fetches."""

    async def inserted(self) -> str | None:
        """The path or address of the image in the drive, None where it is empty."""
        ...

    async def insert(self, source: str) -> None:
        """Put an image in, in place of the one that is there; returns when the drive reports it."""
        ...

    async def eject(self) -> None:
        """Take the image out, whether the guest has locked the drive or not; returns when it is empty."""
        ...


class BootOverride(Protocol):
    """What the machine starts from."""

    async def setting(self) -> BootSetting: ...

    async def set(self, device: BootDevice, *, once: bool) -> None:
        """Set it from the next start on; with `once` for that start only. Verified by reading it back.

        Raises OperationRejectedError where the machine has no such device.
        """
        ...


class Snapshot(Protocol):
    """Whole states of the machine: memory, devices and disks. Names are checked above, once."""

    async def save(self, name: str) -> None:
        """Save the present state, in place of an earlier one of that name; the machine stands still meanwhile."""
        ...

    async def restore(self, name: str) -> None:
        """Go back to that state; the machine is on then, and frozen where it was frozen before."""
        ...

    async def saved(self) -> Sequence[SavedState]:
        """The states there are, the oldest first."""
        ...

    async def delete(self, name: str) -> None: ...


class Freeze(Protocol):
    """Standing still: the processors stop, the power stays on, the screen stays as it is."""

    async def frozen(self) -> bool: ...

    async def freeze(self) -> None:
        """Raises OperationRejectedError on a machine that is off."""
        ...

    async def thaw(self) -> None: ...


class Shell(Protocol):
    """Commands in the guest."""

    def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        """Start a command and yield its output as it comes, at the end `Exited`; closing the iterator ends it.

        A slow reader holds the command up, nothing is dropped. Raises OperationRejectedError where it can't be
        started, OperationTimeoutError where it was ended for its timeout, ConnectionLostError where its end
        can't be told.
        """
        ...


class Files(Protocol):
    """Files in the guest, by absolute path, in pieces of at most a few hundred KiB."""

    def read(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file from its beginning to its end; raises OperationRejectedError where it can't be read."""
        ...

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        """Put a file there, in place of an earlier one and whole or not at all.

        Returns once the guest has it as it was sent. Raises OperationRejectedError where it can't be written.
        """
        ...


class Apps(Protocol):
    """Applications of the guest's desktop."""

    async def launch(self, name: str) -> None:
        """Start an application by the name that its desktop has for it."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one driver lends; None where it has nothing of the kind."""

    power: Power | None = None
    screen: Screen | None = None
    keyboard: Keyboard | None = None
    console: Console | None = None
    pointer: Pointer | None = None
    media: VirtualMedia | None = None
    boot: BootOverride | None = None
    snapshot: Snapshot | None = None
    freeze: Freeze | None = None
    shell: Shell | None = None
    files: Files | None = None
    apps: Apps | None = None
    accessibility: Accessibility | None = None

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
            pointer=self.pointer or later.pointer,
            media=self.media or later.media,
            boot=self.boot or later.boot,
            snapshot=self.snapshot or later.snapshot,
            freeze=self.freeze or later.freeze,
            shell=self.shell or later.shell,
            files=self.files or later.files,
            apps=self.apps or later.apps,
            accessibility=self.accessibility or later.accessibility,
        )
