"""vncdotool: `vncdo expect MENU FUZZ key enter`, a new process for every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.reflex.guest import CACHE, StimulusGuest
from benchmarks.reflex.pictures import menu_and_idle
from benchmarks.reflex.rig import Absent, Wait, free_display, process, vm

PROGRAM = CACHE / "vncdotool" / "bin" / "vncdo"
FUZZ = 60


class Vncdo:
    name = "vncdo"

    def version(self) -> str:
        if not PROGRAM.exists():
            raise Absent("vncdotool is not installed; run benchmarks/reflex/install")
        return next((CACHE / "vncdotool").glob("lib/*/site-packages/vncdotool-*.dist-info")).name.split("-")[1].removesuffix(".dist")

    @asynccontextmanager
    async def watch(self, guest: StimulusGuest, folder: Path) -> AsyncIterator[Wait]:
        menu = (await menu_and_idle(guest))[0]
        display = free_display()
        command = [str(PROGRAM), "-s", f"127.0.0.1::{5900 + display}", "expect", str(menu), str(FUZZ), "key", "enter"]
        last: list[asyncio.subprocess.Process] = []

        async with vm(guest, folder, "-vnc", f"127.0.0.1:{display}"):
            async def wait() -> None:
                while last:
                    await last.pop().wait()
                last.append(await asyncio.create_subprocess_exec(*command))
            try:
                yield wait
            finally:
                for program in last:
                    if program.returncode is None:
                        program.kill()
                        await program.wait()
