"""How soon a switch of the video mode is seen: what comes with the old size after the machine has the new one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.contract.rigs import PATIENCE, Machine, follows, is_menu, shown, stroke
from tests.guests import build_cdrom

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find

_GRAPHICS = (
    'menuentry "{size}" --hotkey={key} '
    "{{ set gfxmode={size}; terminal_output console; terminal_output gfxterm }}\n"
)
MENU = (
    "set timeout=-1\ninsmod all_video\nloadfont unicode\n"
    'menuentry "text" --hotkey=t { terminal_output console }\n'
    + _GRAPHICS.format(key="g", size="1024x768")
    + _GRAPHICS.format(key="x", size="1280x1024")
)
MODES = (("g", 1024), ("x", 1280), ("t", 720), ("x", 1280), ("g", 1024), ("t", 720))


@dataclass(frozen=True)
class Switch:
    """late: frames of another size than a screenshot taken right after them. seconds: for how long."""

    late: int
    seconds: float


async def switches(folder: Path, rounds: int) -> Sequence[Switch]:
    """Go through the modes again and again; each ends with a frame that is what a screenshot shows."""
    config = QemuConfig(cdroms=(build_cdrom(folder / "cdrom", MENU),), memory_mib=128, accel="tcg")
    found = []
    try:
        async with open_driver(config, machine="guest", state_dir=folder / "state") as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            for key, width in MODES * rounds:
                found.append(await _switch(machine, key, width))
                await follows(machine)
    finally:
        vm = find("guest", folder / "state")
        if vm is not None:
            vm.stop()
    return found


async def _switch(machine: Machine, key: str, width: int) -> Switch:
    late, since, longest = 0, None, 0.0
    async with asyncio.timeout(PATIENCE), aclosing(machine.screen.frames()) as frames:  # type: ignore[type-var]
        await stroke(machine.keyboard, key)
        async for frame in frames:
            now = time.monotonic()
            longest = max(longest, 0.0 if since is None else now - since)
            if is_menu(frame, width):
                break
            shot = await machine.screen.screenshot()
            if (shot.width, shot.height) != (frame.width, frame.height):
                late += 1
                since = since or now
            else:
                since = None
    return Switch(late, longest)
