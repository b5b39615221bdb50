"""A machine: the capabilities of its drivers, merged and guarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from reflexarc.errors import CapabilityError
from reflexarc.machine.capabilities import Capabilities
from reflexarc.machine.chords import Kept, KeysDown
from reflexarc.machine.guard import Guard
from reflexarc.machine.guarded import (
    GuardedBoot,
    GuardedConsole,
    GuardedFreeze,
    GuardedMedia,
    GuardedPower,
    GuardedScreen,
    GuardedSnapshot,
)
from reflexarc.machine.guest import GuardedAccessibility, GuardedApps, GuardedFiles, GuardedShell
from reflexarc.machine.keyboard import GuardedKeyboard
from reflexarc.machine.pointer import GuardedPointer

__all__ = ["GuardedConsole", "GuardedPower", "GuardedScreen", "Machine"]

T = TypeVar("T")


@dataclass(frozen=True)
class GuardedCapabilities:
    """What a machine offers; None where no driver offers it."""

    power: GuardedPower | None
    screen: GuardedScreen | None
    keyboard: GuardedKeyboard | None
    console: GuardedConsole | None
    pointer: GuardedPointer | None
    media: GuardedMedia | None
    boot: GuardedBoot | None
    snapshot: GuardedSnapshot | None
    freeze: GuardedFreeze | None
    shell: GuardedShell | None
    files: GuardedFiles | None
    apps: GuardedApps | None
    accessibility: GuardedAccessibility | None


class Machine:
    """One machine of the inventory, open.

    Each capability raises CapabilityError when no driver of the machine offers it; advice: what that error says then.
    """

    def __init__(
        self,
        name: str,
        lent: Capabilities,
        guard: Guard,
        *,
        layout: str = "us",
        keys_down: KeysDown | None = None,
        buttons_down: Kept | None = None,
        escape: Kept | None = None,
        advice: str = "",
    ) -> None:
        self.name = name
        self._advice = advice
        self.guard = guard
        self.offers = lent.names()
        keyboard = GuardedKeyboard(lent.keyboard, guard, layout, keys_down) if lent.keyboard else None
        self.guarded = GuardedCapabilities(
            power=GuardedPower(lent.power, guard) if lent.power else None,
            screen=GuardedScreen(lent.screen, guard) if lent.screen else None,
            keyboard=keyboard,
            console=GuardedConsole(lent.console, guard, escape) if lent.console else None,
            pointer=GuardedPointer(lent.pointer, guard, buttons_down, keyboard) if lent.pointer else None,
            media=GuardedMedia(lent.media, guard) if lent.media else None,
            boot=GuardedBoot(lent.boot, guard) if lent.boot else None,
            snapshot=GuardedSnapshot(lent.snapshot, guard) if lent.snapshot else None,
            freeze=GuardedFreeze(lent.freeze, guard) if lent.freeze else None,
            shell=GuardedShell(lent.shell, guard) if lent.shell else None,
            files=GuardedFiles(lent.files, guard) if lent.files else None,
            apps=GuardedApps(lent.apps, guard) if lent.apps else None,
            accessibility=GuardedAccessibility(lent.accessibility, guard) if lent.accessibility else None,
        )

    async def release_keys(self) -> None:
        """Let go every key and button that was left down."""
        if self.guarded.keyboard is not None:
            await self.guarded.keyboard.release_all()
        if self.guarded.pointer is not None:
            await self.guarded.pointer.release_all()

    @property
    def sensed(self) -> Capabilities:
        """What the senses read from, guarded."""
        return Capabilities(
            power=self.guarded.power,
            screen=self.guarded.screen,
            console=self.guarded.console,
            accessibility=self.guarded.accessibility,
        )

    @property
    def power(self) -> GuardedPower:
        return self._need(self.guarded.power, "power")

    @property
    def screen(self) -> GuardedScreen:
        return self._need(self.guarded.screen, "screen")

    @property
    def keyboard(self) -> GuardedKeyboard:
        return self._need(self.guarded.keyboard, "keyboard")

    @property
    def console(self) -> GuardedConsole:
        return self._need(self.guarded.console, "console")

    @property
    def pointer(self) -> GuardedPointer:
        return self._need(self.guarded.pointer, "pointer")

    @property
    def media(self) -> GuardedMedia:
        return self._need(self.guarded.media, "media")

    @property
    def boot(self) -> GuardedBoot:
        return self._need(self.guarded.boot, "boot")

    @property
    def snapshot(self) -> GuardedSnapshot:
        return self._need(self.guarded.snapshot, "snapshot")

    @property
    def freeze(self) -> GuardedFreeze:
        return self._need(self.guarded.freeze, "freeze")

    @property
    def shell(self) -> GuardedShell:
        return self._need(self.guarded.shell, "shell")

    @property
    def files(self) -> GuardedFiles:
        return self._need(self.guarded.files, "files")

    @property
    def apps(self) -> GuardedApps:
        return self._need(self.guarded.apps, "apps")

    @property
    def accessibility(self) -> GuardedAccessibility:
        return self._need(self.guarded.accessibility, "accessibility")

    def _need(self, capability: T | None, name: str) -> T:
        if capability is None:
            raise CapabilityError(
                f"no driver of this machine offers {name}; it offers {', '.join(self.offers) or 'nothing'}"
                f"{self._advice}",
                machine=self.name,
                operation=name,
            )
        return capability
