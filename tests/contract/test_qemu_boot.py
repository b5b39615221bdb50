"""Starting from what was set, on both kinds of firmware; and the variables that UEFI keeps."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import PATIENCE, Machine, is_menu, shown
from tests.guests import GRUB_IN_MODE, build_cdrom

from reflexarc.drivers.qemu.config import Disk, QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import BootDevice

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.timeout(600)]

DISC, DISK = 800, 1024


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A disc and a disk, told apart by the width of the menu they show."""
    folder = tmp_path_factory.mktemp("images")
    return (
        build_cdrom(folder / "disc", GRUB_IN_MODE.format(mode="800x600")),
        build_cdrom(folder / "disk", GRUB_IN_MODE.format(mode="1024x768")),
    )


def configured(images: tuple[Path, Path], firmware: str, machine_type: str = "pc") -> QemuConfig:
    disc, disk = images
    return QemuConfig(
        firmware=firmware,
        machine_type=machine_type,
        cdroms=(disc,),
        disks=(Disk(disk, "raw", "virtio" if machine_type == "pc" else "sata"),),
        memory_mib=256,
        accel="tcg",
    )


async def started(machine: Machine, width: int) -> None:
    await shown(machine.screen, partial(is_menu, width=width))


async def changed(file: Path, before: bytes) -> None:
    """Wait until the file holds something else."""
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(file.read_bytes) == before:
            pass


def test_bios_starts_from_what_is_set(images: tuple[Path, Path], state_dir: Path) -> None:
    async def run() -> None:
        config = configured(images, "bios")
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.boot.set(BootDevice.DISK, once=True)
            await machine.power.on()
            await started(machine, DISK)
            await machine.power.reset()
            await started(machine, DISC)
            await machine.boot.set(BootDevice.DISK, once=True)
            await machine.power.reset()
            await started(machine, DISK)
            await machine.power.cycle()
            await started(machine, DISC)
            await machine.boot.set(BootDevice.DISK, once=False)
            for _ in range(2):
                await machine.power.cycle()
                await started(machine, DISK)
            with pytest.raises(OperationRejectedError, match="no network to start from; it has cdrom, disk"):
                await machine.boot.set(BootDevice.NETWORK, once=True)
            await machine.boot.set(BootDevice.NONE, once=False)
            await machine.power.reset()
            await started(machine, DISC)

    asyncio.run(run())


def test_what_one_program_set_for_once_another_undoes(images: tuple[Path, Path], state_dir: Path) -> None:
    config = configured(images, "bios", "q35")

    async def set_it() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            await Machine.of(lent).boot.set(BootDevice.DISK, once=True)

    async def use_it() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            assert (await machine.boot.setting()).device is BootDevice.DISK
            await machine.power.on()
            await started(machine, DISK)

    async def go_on() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            assert (await machine.boot.setting()).device is BootDevice.NONE
            await machine.power.reset()
            await started(machine, DISC)

    for act in (set_it, use_it, go_on):
        asyncio.run(act())


@pytest.mark.parametrize("firmware", ["uefi", pytest.param("uefi-secure", marks=pytest.mark.full)])
def test_uefi_starts_from_what_is_set_and_keeps_its_variables(
    images: tuple[Path, Path], state_dir: Path, firmware: str
) -> None:
    config = configured(images, firmware, "q35")
    # Secure boot refuses GRUB, which nobody signed.
    boots = firmware == "uefi"
    variables = state_dir / f"{firmware}-vars.fd"
    template = Path("/usr/share/OVMF/OVMF_VARS_4M" + (".fd" if boots else ".ms.fd")).read_bytes()

    async def run() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.boot.set(BootDevice.DISK, once=True)
            await machine.power.on()
            if not boots:
                await shown(machine.screen, lambda frame: frame.width == 1280)
                await changed(variables, template)
                return
            await started(machine, DISK)
            await machine.power.reset()
            await started(machine, DISC)

    asyncio.run(run())
    vm = find("guest", state_dir)
    assert vm is not None
    vm.stop()
    # Only now: its firmware writes for as long as it runs.
    written = variables.read_bytes()
    assert written != template

    async def again() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir):
            assert variables.read_bytes() == written

    asyncio.run(again())
