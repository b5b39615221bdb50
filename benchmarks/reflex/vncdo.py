"""vncdotool: `vncdo expect MENU FUZZ key enter`, a new process for every wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.reflex.guest import CACHE, StimulusGuest
from benchmarks.reflex.pictures import menu_and_idle
from benchmarks.reflex.rig import Wait, free_display, installed, vm

ENVIRONMENT = CACHE / "vncdotool"
FUZZ = 60


class Vncdo:
    name = "vncdo"

    def version(self) -> str:
        return installed(ENVIRONMENT, "vncdotool")

    @asynccontextmanager
    async def watch(self, guest: StimulusGuest, folder: Path) -> AsyncIterator[Wait]:
        menu = (await menu_and_idle(guest))[0]
        display = free_display()
        command = [
            str(ENVIRONMENT / "bin/vncdo"),
            "-s",
            f"127.0.0.1::{5900 + display}",
            "expect",
            str(menu),
            str(FUZZ),
            "key",
            "enter",
        ]
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
