"""reflexarc, as shipped: its public API, its defaults, its own QEMU driver."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.reflex.guest import MEMORY_MIB, Guest
from benchmarks.reflex.rig import Told, Wait, process

import reflexarc
from reflexarc.errors import OffScriptError

REPOSITORY = Path(__file__).parents[2]


class Reflexarc:
    """The peer that this benchmark is about."""

    name = "reflexarc"

    def version(self) -> str:
        return reflexarc.__version__

    @asynccontextmanager
    async def watch(self, guest: Guest, folder: Path) -> AsyncIterator[Wait]:
        inventory = folder / "reflexarc.toml"
        inventory.write_text(
            '[machines.stimulus]\ndrivers = ["qemu"]\n[machines.stimulus.qemu]\naccel = "tcg"\n'
            f'memory_mib = {MEMORY_MIB}\nbinary = "{guest.qemu(folder)}"\n{guest.settings}'
        )
        arguments = [sys.executable, "-m", "benchmarks.reflex.ours", str(inventory)]
        settings = {"REFLEXARC_STATE": str(folder / "state"), "PYTHONPATH": str(REPOSITORY)}
        async with process(arguments, folder, **settings) as program:
            yield Told(program, folder)
        shutil.rmtree(folder / "state", ignore_errors=True)


async def react(inventory: Path) -> None:
    """Answer each `wait` line on standard input with one Enter at the next menu."""
    sent: list[float] = []
    async with reflexarc.open("stimulus", inventory=inventory) as machine:
        await machine.power.on()
        audit = machine.machine.guard.audit

        def noted(line: Mapping[str, object]) -> None:
            """The guard's last word before a key goes to the driver."""
            if audit is not None:
                audit(line)
            if line["operation"] == "keyboard.press":
                sent.append(time.perf_counter())

        machine.machine.guard.audit = noted
        while await asyncio.to_thread(sys.stdin.readline):
            print("waiting", flush=True)
            while True:
                # A screen that stays as it is for 10 s is nothing that was expected: look again.
                try:
                    await machine.wait_for("grub_menu")
                except OffScriptError:
                    continue
                break
            await machine.keyboard.press("enter")
            print(f"pressed {sent[0]}", flush=True)
            sent.clear()


if __name__ == "__main__":
    asyncio.run(react(Path(sys.argv[1])))
