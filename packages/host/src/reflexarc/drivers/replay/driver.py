"""Lends the capabilities of a machine that is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from reflexarc.drivers.replay.config import ReplayConfig
from reflexarc.drivers.replay.devices import (
    ReplayBoot,
    ReplayFreeze,
    ReplayMedia,
    ReplayPointer,
    ReplaySnapshot,
)
from reflexarc.drivers.replay.guest import ReplayApps, ReplayFiles, ReplayShell
from reflexarc.drivers.replay.player import Player, Sent
from reflexarc.drivers.replay.recording import load
from reflexarc.drivers.replay.script import Entry, Fault, ReplayGuest, ReplayScript
from reflexarc.drivers.replay.tree import ReplayAccessibility
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Capabilities, KeyEvent, PowerState
from reflexarc.machine.frame import Frame


class ReplayCapabilities(Capabilities):
    """A played machine's capabilities, and the other side of them: what was sent, and a way to make it act."""

    sent: list[Sent]
    _player: Player

    def __init__(self, player: Player, guest: ReplayGuest | None = None) -> None:
        super().__init__(
            power=ReplayPower(player),
            screen=ReplayScreen(player),
            keyboard=ReplayKeyboard(player),
            console=ReplayConsole(player),
            pointer=ReplayPointer(player),
            media=ReplayMedia(player),
            boot=ReplayBoot(player),
            snapshot=ReplaySnapshot(player),
            freeze=ReplayFreeze(player),
            shell=ReplayShell(player, guest) if guest else None,
            files=ReplayFiles(player, guest) if guest else None,
            apps=ReplayApps(player, guest) if guest else None,
            accessibility=ReplayAccessibility(player) if guest and guest.elements is not None else None,
        )
        object.__setattr__(self, "sent", player.sent)
        object.__setattr__(self, "_player", player)

    def play(self, *entries: Entry) -> None:
        """Let entries happen now, in order, whatever their times."""
        for entry in entries:
            self._player.play(entry)


def open_replay(script: ReplayScript, *, machine: str = "replay") -> ReplayCapabilities:
    """Return a machine that plays the script; its clock starts when it is first used."""
    return ReplayCapabilities(Player(script, machine), script.guest)


@asynccontextmanager
async def open_driver(
    config: ReplayConfig, *, machine: str, state_dir: Path
) -> AsyncIterator[ReplayCapabilities]:
    """Play the recording; `state_dir` is not used. Raises ConfigError when the recording is wrong."""
    yield open_replay(await asyncio.to_thread(load, config), machine=machine)


class ReplayPower:
    """Power that follows at once, unless the script says otherwise; implements `Power`."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def state(self) -> PowerState:
        self._player.catch_up()
        return self._player.power

    async def on(self) -> None:
        self._act("power.on", PowerState.ON, effective=await self.state() is not PowerState.ON)

    async def off(self) -> None:
        self._act("power.off", PowerState.OFF, effective=await self.state() is not PowerState.OFF)

    async def reset(self) -> None:
        if await self.state() is PowerState.OFF:
            raise OperationRejectedError(
                "it is off and can't be reset; switch it on",
                machine=self._player.machine,
                operation="power.reset",
                code="off",
            )
        self._act("power.reset", PowerState.ON)

    async def cycle(self) -> None:
        self._act("power.cycle", PowerState.OFF, PowerState.ON)

    async def shutdown(self, timeout: float) -> None:
        """Ask for a shutdown; the machine is off at once where the script has no reaction to it."""
        if await self.state() is PowerState.OFF:
            return
        player = self._player
        fault = player.fault("power.shutdown")
        if fault is Fault.HANG:
            player.note("power.shutdown")
        elif not player.receive("power.shutdown"):
            player.play(Entry(power=PowerState.OFF))
        try:
            async with asyncio.timeout(timeout):
                while await self.state() is not PowerState.OFF:
                    await player.advance()
        except TimeoutError as error:
            raise player.unfollowed("power.shutdown") from error
        if fault is Fault.LOSE_AFTER:
            raise player.lost("power.shutdown")

    def _act(self, operation: str, *states: PowerState, effective: bool = True) -> None:
        """Go through the states, then let the script react; where not `effective`, the machine does nothing."""
        player = self._player
        fault = player.fault(operation)
        if fault is Fault.HANG:
            player.note(operation)
            raise player.unfollowed(operation)
        if effective:
            player.freeze(False)
            for state in states:
                player.play(Entry(power=state))
            player.receive(operation)
        else:
            player.note(operation)
        if fault is Fault.LOSE_AFTER:
            raise player.lost(operation)


class ReplayScreen:
    """The pictures of the script; implements `Screen`. While the machine is off, frames have no signal."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def screenshot(self) -> Frame:
        fault = self._player.fault("screen.screenshot")
        if fault is Fault.HANG:
            raise self._player.unfollowed("screen.screenshot")
        if fault is Fault.LOSE_AFTER:
            raise self._player.lost("screen.screenshot")
        return self._player.screenshot()

    async def frames(self) -> AsyncGenerator[Frame, None]:
        seen = 0
        while True:
            self._player.catch_up()
            frame = self._player.frame
            if frame is not None and frame.number != seen:
                seen = frame.number
                yield frame
            else:
                await self._player.advance()

    def source(self) -> str:
        return "recording, played"


class ReplayKeyboard:
    """Notes every key; implements `Keyboard`."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def send(self, events: Sequence[KeyEvent]) -> None:
        fault = self._player.fault("keyboard.send")
        if fault is Fault.HANG:
            raise self._player.unfollowed("keyboard.send")
        self._player.require_running("keyboard.press")
        for event in events:
            self._player.receive("key.down" if event.down else "key.up", event.key)
        if fault is Fault.LOSE_AFTER:
            raise self._player.lost("keyboard.send")


class ReplayConsole:
    """The text of the script; implements `Console`."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def read(self) -> str:
        self._player.catch_up()
        while not self._player.unread:
            await self._player.advance()
        text, self._player.unread = self._player.unread, ""
        return text

    async def write(self, data: str) -> None:
        fault = self._player.fault("console.write")
        if fault is Fault.HANG:
            raise self._player.unfollowed("console.write")
        self._player.receive("console.write", data)
        if fault is Fault.LOSE_AFTER:
            raise self._player.lost("console.write")
