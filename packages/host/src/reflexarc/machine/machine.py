"""A machine: the capabilities of its drivers, merged and guarded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeVar

from reflexarc.errors import CapabilityError
from reflexarc.machine.capabilities import Capabilities, Console, Power, PowerState, Screen
from reflexarc.machine.frame import Frame
from reflexarc.machine.guard import Guard
from reflexarc.machine.keyboard import GuardedKeyboard

T = TypeVar("T")


class GuardedPower:
    """Power, behind the guard."""

    def __init__(self, power: Power, guard: Guard) -> None:
        self._power = power
        self._guard = guard

    async def state(self) -> PowerState:
        return await self._power.state()

    async def on(self) -> None:
        self._guard.check("power.on")
        await self._power.on()

    async def off(self) -> None:
        self._guard.check("power.off")
        await self._power.off()

    async def shutdown(self, timeout: float = 120.0) -> None:
        self._guard.check("power.shutdown")
        await self._power.shutdown(timeout)

    async def reset(self) -> None:
        self._guard.check("power.reset")
        await self._power.reset()

    async def cycle(self) -> None:
        self._guard.check("power.cycle")
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
    """The serial console, behind the guard."""

    def __init__(self, console: Console, guard: Guard) -> None:
        self._console = console
        self._guard = guard

    async def read(self) -> str:
        return await self._console.read()

    async def write(self, data: str) -> None:
        self._guard.check("console.write", characters=len(data))
        await self._console.write(data)


@dataclass(frozen=True)
class GuardedCapabilities:
    """What a machine offers; None where no driver offers it."""

    power: GuardedPower | None
    screen: GuardedScreen | None
    keyboard: GuardedKeyboard | None
    console: GuardedConsole | None


class Machine:
    """One machine of the inventory, open.

    Each capability raises CapabilityError when no driver of the machine offers it.
    """

    def __init__(self, name: str, lent: Capabilities, guard: Guard, *, layout: str = "us") -> None:
        self.name = name
        self.guard = guard
        self.offers = lent.names()
        self.guarded = GuardedCapabilities(
            power=GuardedPower(lent.power, guard) if lent.power else None,
            screen=GuardedScreen(lent.screen, guard) if lent.screen else None,
            keyboard=GuardedKeyboard(lent.keyboard, guard, layout) if lent.keyboard else None,
            console=GuardedConsole(lent.console, guard) if lent.console else None,
        )

    async def release_keys(self) -> None:
        """Let go every key that was left down."""
        if self.guarded.keyboard is not None:
            await self.guarded.keyboard.release_all()

    @property
    def sensed(self) -> Capabilities:
        """What the senses read from, guarded."""
        return Capabilities(
            power=self.guarded.power, screen=self.guarded.screen, console=self.guarded.console
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

    def _need(self, capability: T | None, name: str) -> T:
        if capability is None:
            raise CapabilityError(
                f"no driver of this machine offers {name}; it offers {', '.join(self.offers) or 'nothing'}",
                machine=self.name,
                operation=name,
            )
        return capability
