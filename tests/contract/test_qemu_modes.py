"""The pushed picture, in every video mode and for those who come late, against QEMU's own screendump."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import PATIENCE, Machine, follows, is_menu, said, shown, stroke

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.timeout(600)]

MODES = [("p", (640, 480)), ("g", (1024, 768)), ("t", (720, 400)), ("g", (1024, 768)), ("p", (640, 480))]


def test_each_mode_is_seen_whole_by_those_who_watch_and_those_who_come_late(
    menu_config: QemuConfig, state_dir: Path
) -> None:
    async def run() -> list[tuple[int, int]]:
        sizes = []
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
        for key, size in MODES:
            async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
                machine = Machine.of(lent)
                late = await follows(machine)
                async with asyncio.timeout(PATIENCE):
                    while machine.screen.source() != "D-Bus display, pushed":
                        late = await follows(machine)
                sizes.append((late.width, late.height))
                await stroke(machine.keyboard, key)
                await shown(machine.screen, partial(is_menu, width=size[0]))
                watched = await follows(machine)
                assert (watched.width, watched.height) == size
        return sizes

    assert asyncio.run(run()) == [(720, 400), *(size for _, size in MODES[:-1])]


def test_a_switch_is_one_step_from_the_old_picture_to_the_new(
    menu_config: QemuConfig, state_dir: Path
) -> None:
    async def run() -> list[tuple[int, int]]:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            sizes = [(720, 400)]
            async with aclosing(machine.screen.frames()) as frames:  # type: ignore[type-var]
                for key, size in MODES:
                    await stroke(machine.keyboard, key)
                    async for frame in frames:
                        if (frame.width, frame.height) != sizes[-1]:
                            sizes.append((frame.width, frame.height))
                        if is_menu(frame, size[0]):
                            break
            return sizes

    found = asyncio.run(run())
    # Between two graphics modes GRUB shows its text console.
    assert [size for size in found if size != (720, 400)] == [size for _, size in MODES if size[0] != 720]


def test_a_framebuffer_that_linux_sets_up_is_followed(desk_config: QemuConfig, desk_dir: Path) -> None:
    async def run() -> tuple[int, int]:
        async with open_driver(desk_config, machine="guest", state_dir=desk_dir) as lent:
            machine = Machine.of(lent)
            await follows(machine)
            await machine.console.write("load bochs; cat /proc/modules > /dev/tty1; echo DONE\n")
            await said(machine.console, "DONE")
            await shown(machine.screen, lambda frame: frame.width == 1280)
            frame = await follows(machine)
            return frame.width, frame.height

    assert asyncio.run(run()) == (1280, 800)


@pytest.mark.full
@pytest.mark.parametrize(("firmware", "vga"), [("uefi", "std"), ("uefi", "virtio"), ("bios", "virtio")])
def test_a_boot_is_followed_from_the_firmware_to_the_framebuffer(
    firmware: str, vga: str, desk: Path, state_dir: Path
) -> None:
    config = QemuConfig(firmware=firmware, vga=vga, binary=str(desk), memory_mib=512, accel="tcg")

    async def run() -> tuple[int, int]:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await follows(machine)
            await said(machine.console, "READY")
            await follows(machine)
            load = "load virtio-pci virtio-gpu bochs; cat /proc/modules > /dev/tty1; echo DONE\n"
            await machine.console.write(load)
            await said(machine.console, "DONE")
            await shown(machine.screen, lambda frame: frame.width == 1280)
            frame = await follows(machine)
            return frame.width, frame.height

    assert asyncio.run(run()) == (1280, 800)
