"""Saving, going back and freezing, again and again: is a key or a frame lost?"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

from tests.contract.rigs import Machine, bar, follows, is_menu, shown, stroke
from tests.guests import build_cdrom

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find


class Returning:
    """Rounds on GRUB's menu, where a key moves the bar and going back moves it up again."""

    def __init__(self, machine: Machine, top: int) -> None:
        self._machine = machine
        self._top = top
        self.lost_keys = self.lost_frames = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def round(self) -> None:
        machine = self._machine
        await self._timed("save", machine.snapshot.save("round"))
        self.lost_keys += not await self._down()
        await self._timed("restore", machine.snapshot.restore("round"))
        self.lost_frames += not await self._shows(top=True)
        await stroke(machine.keyboard, "down")
        await self._timed("freeze", machine.freeze.freeze())
        await self._timed("thaw", machine.freeze.thaw())
        self.lost_keys += not await self._shows(top=False)
        await machine.snapshot.restore("round")
        self.lost_frames += not await self._shows(top=True)

    async def _down(self) -> bool:
        await stroke(self._machine.keyboard, "down")
        return await self._shows(top=False)

    async def _shows(self, *, top: bool) -> bool:
        """Tell whether the pushed picture gets there, and is then what a screenshot shows."""
        try:
            await shown(self._machine.screen, lambda f: f.width == 720 and (bar(f) == self._top) is top)
            await follows(self._machine)
        except TimeoutError:
            return False
        return True

    async def _timed(self, what: str, act: Awaitable[None]) -> None:
        began = time.monotonic()
        await act
        self.seconds[what].append(time.monotonic() - began)

    def figures(self) -> dict[str, float | int]:
        times = {f"{what}_median_s": round(statistics.median(all_), 3) for what, all_ in self.seconds.items()}
        return {
            "rounds": len(self.seconds["save"]),
            "lost_keys": self.lost_keys,
            "lost_frames": self.lost_frames,
            **times,
        }


async def returning(folder: Path, rounds: int) -> dict[str, float | int]:
    """Go through so many rounds, the screen watched all the while."""
    config = QemuConfig(cdroms=(build_cdrom(folder / "cdrom"),), memory_mib=128, accel="tcg")
    try:
        async with open_driver(config, machine="guest", state_dir=folder / "state") as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            menu = await shown(machine.screen, partial(is_menu, width=720))
            watching = asyncio.create_task(_watch(machine))
            found = Returning(machine, bar(menu) or 0)
            for _ in range(rounds):
                await found.round()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            return found.figures()
    finally:
        vm = find("guest", folder / "state")
        if vm is not None:
            vm.stop()


async def _watch(machine: Machine) -> None:
    async for _ in machine.screen.frames():
        pass
