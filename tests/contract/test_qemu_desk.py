"""What a real guest makes of the pointer, the drive and going back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.rigs import PATIENCE, Machine, said, stroke
from tests.guests import POINTER_REPORT

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.machine.capabilities import Button

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.timeout(600)]

EV_KEY, EV_REL, EV_ABS = 1, 2, 3
BTN_LEFT, BTN_RIGHT, BTN_MIDDLE, REL_WHEEL = 0x110, 0x111, 0x112, 8


@asynccontextmanager
async def opened(config: QemuConfig, folder: Path) -> AsyncIterator[Machine]:
    async with open_driver(config, machine="guest", state_dir=folder) as lent:
        yield Machine.of(lent)


async def shell(machine: Machine, command: str, mark: str) -> str:
    """Have the guest's shell run a command and return what it printed."""
    await machine.console.write(f"{command}\necho '<{mark}'\n")
    heard = await said(machine.console, f"<{mark}")
    return heard[: heard.index(f"<{mark}")]


def reported(heard: str) -> list[tuple[int, int, int]]:
    """The events that POINTER_REPORT told of, as type, code and value; those of synchronisation left out."""
    lines = re.findall(r"(\d+) (\d+) (-?\d+)\r", heard)
    return [(sort, code, value) for sort, code, value in (map(int, line) for line in lines) if sort]


def turned(heard: str) -> int:
    """How far the wheel was turned; one event may tell of several notches."""
    return sum(value for sort, code, value in reported(heard) if (sort, code) == (EV_REL, REL_WHEEL))


def test_the_guest_sees_where_the_pointer_is_and_what_it_does(
    desk_config: QemuConfig, desk_dir: Path
) -> None:
    async def run() -> tuple[tuple[int, int], list[tuple[int, int, int]]]:
        async with opened(desk_config, desk_dir) as machine, asyncio.timeout(PATIENCE):
            await machine.console.write(POINTER_REPORT)
            heard = await said(machine.console, "POINTER")
            shot = await machine.screen.screenshot()
            await machine.pointer.move(17, 251)
            for button in Button:
                await machine.pointer.button(button, True)
                await machine.pointer.button(button, False)
            for notches, total in ((2, -2), (-1, -1)):
                await machine.pointer.scroll(0, notches)
                while turned(heard) != total:
                    heard += await machine.console.read()
            return (shot.width, shot.height), reported(heard)

    (width, height), events = asyncio.run(run())
    places = {code: value for sort, code, value in events if sort == EV_ABS}
    assert (places[0] * width // 32768, places[1] * height // 32768) == (17, 251)
    keys = [(code, value) for sort, code, value in events if sort == EV_KEY]
    assert keys == [(b, down) for b in (BTN_LEFT, BTN_MIDDLE, BTN_RIGHT) for down in (1, 0)]


def test_the_guest_reads_what_is_inserted_and_cannot_hold_it_back(
    desk_config: QemuConfig, desk_dir: Path, tmp_path: Path
) -> None:
    discs = [tmp_path / "a.iso", tmp_path / "b.iso"]
    for number, disc in enumerate(discs):
        disc.write_bytes(f"this is disc {number}".encode().ljust(1 << 20, b"\0"))

    async def run() -> tuple[list[str], str | None]:
        async with opened(desk_config, desk_dir) as machine:
            await said(machine.console, "READY")
            await machine.media.insert(str(discs[0]))
            await shell(
                machine,
                "load ata_piix sr_mod; until head -c 1 /dev/sr0; do :; done; exec 6< /dev/sr0",
                "open",
            )
            read = [await shell(machine, "dd bs=2048 count=1 <&6 2> /dev/null | strings", "first")]
            # The guest has the drive open, which locks its tray.
            await machine.media.insert(str(discs[1]))
            read.append(
                await shell(
                    machine, "exec 6<&-; until dd if=/dev/sr0 bs=2048 count=1 | strings; do :; done", "second"
                )
            )
            await machine.media.eject()
            return read, await machine.media.inserted()

    read, left = asyncio.run(run())
    assert "this is disc 0" in read[0]
    assert "this is disc 1" in read[1]
    assert left is None


def test_going_back_keeps_the_console_and_the_keyboard(desk_config: QemuConfig, desk_dir: Path) -> None:
    async def run() -> list[str]:
        async with opened(desk_config, desk_dir) as machine:
            await said(machine.console, "READY")
            await shell(
                machine, "word=before; (while read line < /dev/tty1; do echo key $line; done) &", "begun"
            )
            await machine.snapshot.save("state")
            await shell(machine, "word=after", "changed")
            await machine.snapshot.restore("state")
            words = [await shell(machine, 'echo "[$word]"', "back")]
            await stroke(machine.keyboard, "a", "b", "enter")
            words.append(await said(machine.console, "key ab"))
            return words

    words = asyncio.run(run())
    assert "[before]" in words[0]
    assert "key ab" in words[1]
