"""Capabilities as callers get them: each act is put to the guard first."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence

from reflexarc.errors import ConfigError
from reflexarc.machine.capabilities import (
    BootDevice,
    BootOverride,
    BootSetting,
    Console,
    Freeze,
    Power,
    PowerState,
    SavedState,
    Screen,
    Snapshot,
    VirtualMedia,
)
from reflexarc.machine.chords import Kept, serial_operations
from reflexarc.machine.frame import Frame
from reflexarc.machine.guard import Guard

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_STATE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


class GuardedPower:
    """Power, behind the guard."""

    def __init__(self, power: Power, guard: Guard) -> None:
        self._power = power
        self._guard = guard

    async def state(self) -> PowerState:
        self._guard.watch("observe.power")
        return await self._power.state()

    async def on(self) -> None:
        self._guard.check("power.on")
        await self._power.on()

    async def off(self) -> None:
        await self._guard.admit("power.off")
        await self._power.off()

    async def shutdown(self, timeout: float = 120.0) -> None:
        await self._guard.admit("power.shutdown")
        await self._power.shutdown(timeout)

    async def reset(self) -> None:
        await self._guard.admit("power.reset")
        await self._power.reset()

    async def cycle(self) -> None:
        await self._guard.admit("power.cycle")
        await self._power.cycle()


class GuardedScreen:
    """The screen, behind the guard."""

    def __init__(self, screen: Screen, guard: Guard) -> None:
        self._screen = screen
        self._guard = guard

    async def screenshot(self) -> Frame:
        self._guard.check("observe.frames")
        return await self._screen.screenshot()

    def frames(self) -> AsyncIterator[Frame]:
        self._guard.check("observe.frames")
        return self._screen.frames()

    def source(self) -> str:
        return self._screen.source()


class GuardedConsole:
    """The serial console, behind the guard.

    A sequence that reaches beyond the console, such as the one for a BREAK, is the power operation it leads to,
    also where several calls or programs write it. kept: where the beginning of one is kept for other programs.
    """

    def __init__(self, console: Console, guard: Guard, kept: Kept | None = None) -> None:
        self._console = console
        self._guard = guard
        self._kept = kept
        self._escaped = False

    async def read(self) -> str:
        self._guard.watch("observe.console")
        return await self._console.read()

    async def write(self, data: str) -> None:
        await self._send(data, "console.write")

    async def run(self, data: str) -> None:
        """Write a line that a shell at the console is to run."""
        await self._send(data, "console.run")

    async def _send(self, data: str, operation: str) -> None:
        escaped = bool(self._kept.read()) if self._kept is not None else self._escaped
        operations, ends_escaped = serial_operations(data, escaped=escaped)
        for caused in operations:
            await self._guard.admit(caused, cause="serial sequence")
        self._guard.check(operation, characters=len(data))
        if self._kept is not None and ends_escaped:
            self._kept.write(["escape"])
        await self._console.write(data)
        self._escaped = ends_escaped
        if self._kept is not None and escaped and not ends_escaped:
            self._kept.write([])


class GuardedMedia:
    """The drive for images, behind the guard."""

    def __init__(self, media: VirtualMedia, guard: Guard) -> None:
        self._media = media
        self._guard = guard

    async def inserted(self) -> str | None:
        self._guard.watch("observe.media")
        return await self._media.inserted()

    async def insert(self, source: str) -> None:
        """Put an image in; a path is resolved first, so that the image is the one the guard decided on."""
        image = resolved(source)
        await self._guard.admit("media.mount", source=image)
        await self._media.insert(image)

    async def eject(self) -> None:
        await self._guard.admit("media.eject")
        await self._media.eject()


class GuardedBoot:
    """What the machine starts from, behind the guard."""

    def __init__(self, boot: BootOverride, guard: Guard) -> None:
        self._boot = boot
        self._guard = guard

    async def setting(self) -> BootSetting:
        self._guard.watch("observe.boot")
        return await self._boot.setting()

    async def set(self, device: BootDevice | str, *, once: bool = False) -> None:
        """Set what the machine starts from; raises ConfigError for a device there is no word for."""
        try:
            device = BootDevice(device)
        except ValueError:
            known = ", ".join(BootDevice)
            raise ConfigError(f"a boot device is one of {known}, not {device!r}") from None
        await self._guard.admit("boot.set_device", device=str(device), once=once)
        await self._boot.set(device, once=once)


class GuardedSnapshot:
    """Saved states, behind the guard; their names are 1 to 64 letters, digits, `.`, `_` and `-`, a letter first."""

    def __init__(self, snapshot: Snapshot, guard: Guard) -> None:
        self._snapshot = snapshot
        self._guard = guard

    async def save(self, name: str) -> None:
        await self._act("snapshot.save", name)

    async def restore(self, name: str) -> None:
        await self._act("snapshot.restore", name)

    async def delete(self, name: str) -> None:
        await self._act("snapshot.delete", name)

    async def saved(self) -> Sequence[SavedState]:
        self._guard.watch("observe.snapshots")
        return await self._snapshot.saved()

    async def _act(self, operation: str, name: str) -> None:
        if not _STATE_NAME.fullmatch(name):
            raise ConfigError(
                "the name of a saved state is a letter and then at most 63 letters, digits, '.', '_' and '-', "
                f"not {name[:80]!r}"
            )
        await self._guard.admit(operation, name=name)
        acts = {
            "snapshot.save": self._snapshot.save,
            "snapshot.restore": self._snapshot.restore,
            "snapshot.delete": self._snapshot.delete,
        }
        await acts[operation](name)


class GuardedFreeze:
    """Standing still, behind the guard."""

    def __init__(self, freeze: Freeze, guard: Guard) -> None:
        self._freeze = freeze
        self._guard = guard

    async def frozen(self) -> bool:
        self._guard.watch("observe.freeze")
        return await self._freeze.frozen()

    async def freeze(self) -> None:
        self._guard.check("freeze.on")
        await self._freeze.freeze()

    async def thaw(self) -> None:
        self._guard.check("freeze.off")
        await self._freeze.thaw()


def resolved(source: str) -> str:
    """The image that a source names now: a path with its links followed, an address as it is."""
    return source if _URL.match(source) else os.path.realpath(source)
