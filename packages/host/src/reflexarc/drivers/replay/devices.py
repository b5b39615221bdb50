"""The played machine's pointer, drive, boot order, saved states and brake."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reflexarc.drivers.replay.player import Player, Saved
from reflexarc.drivers.replay.script import Fault
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import BootDevice, BootSetting, Button, PowerState, SavedState


@contextmanager
def acting(player: Player, operation: str, detail: str = "") -> Iterator[None]:
    """Carry out an act, unless the script lets it fail, and let the script react."""
    fault = player.fault(operation)
    if operation.startswith("pointer."):
        player.require_running(operation)
    if fault is Fault.HANG:
        player.note(operation, detail)
        raise player.unfollowed(operation)
    yield
    player.receive(operation, detail)
    if fault is Fault.LOSE_AFTER:
        raise player.lost(operation)


def rejected(player: Player, operation: str, problem: str, code: str) -> OperationRejectedError:
    return OperationRejectedError(problem, machine=player.machine, operation=operation, code=code)


class ReplayPointer:
    """Notes `pointer.move` with "x,y", `pointer.down` and `pointer.up` with the button, `pointer.scroll` with "dx,dy".

    Implements `Pointer`.
    """

    def __init__(self, player: Player) -> None:
        self._player = player

    async def move(self, x: int, y: int) -> None:
        frame = self._player.screenshot()
        if not (0 <= x < frame.width and 0 <= y < frame.height):
            raise rejected(
                self._player,
                "pointer.move",
                f"({x}, {y}) is not on its screen of {frame.width}x{frame.height} pixels",
                "outside",
            )
        with acting(self._player, "pointer.move", f"{x},{y}"):
            pass

    async def button(self, button: Button, down: bool) -> None:
        with acting(self._player, "pointer.down" if down else "pointer.up", str(button)):
            pass

    async def scroll(self, dx: int, dy: int) -> None:
        with acting(self._player, "pointer.scroll", f"{dx},{dy}"):
            pass


class ReplayMedia:
    """A drive that takes whatever it is given; implements `VirtualMedia`."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._source: str | None = None

    async def inserted(self) -> str | None:
        return self._source

    async def insert(self, source: str) -> None:
        with acting(self._player, "media.mount", source):
            self._source = source

    async def eject(self) -> None:
        with acting(self._player, "media.eject"):
            self._source = None


class ReplayBoot:
    """A boot order that is used up when the machine starts; implements `BootOverride`."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._once: tuple[BootDevice, int] | None = None
        self._lasting = BootDevice.NONE

    async def setting(self) -> BootSetting:
        if self._once and self._once[1] == self._player.starts:
            return BootSetting(self._once[0], once=True)
        return BootSetting(self._lasting)

    async def set(self, device: BootDevice, *, once: bool) -> None:
        with acting(self._player, "boot.set_device", str(device)):
            self._once = (device, self._player.starts) if once else None
            if not once:
                self._lasting = device


class ReplaySnapshot:
    """Keeps the picture, the signal and the power; implements `Snapshot`."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._saved: dict[str, tuple[SavedState, Saved]] = {}

    async def save(self, name: str) -> None:
        self._player.catch_up()
        if self._player.power is PowerState.OFF:
            raise rejected(self._player, "snapshot.save", "it is off and has no state to save", "off")
        with acting(self._player, "snapshot.save", name):
            self._saved.pop(name, None)
            self._saved[name] = (SavedState(name, time.time()), self._player.present())

    async def restore(self, name: str) -> None:
        _, state = self._existing(name, "snapshot.restore")
        with acting(self._player, "snapshot.restore", name):
            self._player.go_back(state)

    async def saved(self) -> Sequence[SavedState]:
        return [described for described, _ in self._saved.values()]

    async def delete(self, name: str) -> None:
        self._existing(name, "snapshot.delete")
        with acting(self._player, "snapshot.delete", name):
            del self._saved[name]

    def _existing(self, name: str, operation: str) -> tuple[SavedState, Saved]:
        if name not in self._saved:
            raise rejected(
                self._player,
                operation,
                f"there is no saved state {name!r}; there are: {', '.join(self._saved) or 'none'}",
                "absent",
            )
        return self._saved[name]


class ReplayFreeze:
    """Holds the script up; implements `Freeze`."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def frozen(self) -> bool:
        return self._player.frozen

    async def freeze(self) -> None:
        self._player.catch_up()
        if self._player.power is PowerState.OFF:
            raise rejected(self._player, "freeze.on", "it is off and can't be frozen", "off")
        with acting(self._player, "freeze.on"):
            self._player.freeze(True)

    async def thaw(self) -> None:
        if self._player.frozen:
            with acting(self._player, "freeze.off"):
                self._player.freeze(False)
