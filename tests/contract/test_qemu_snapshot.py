"""Where QEMU keeps saved states, and what can't go back."""

from __future__ import annotations

import asyncio
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import Machine, is_menu, shown

from reflexarc.drivers.qemu.config import Disk, QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import find
from reflexarc.errors import OperationRejectedError

pytestmark = [pytest.mark.guest, pytest.mark.full, pytest.mark.timeout(600)]


def test_a_state_outlives_the_machines_process(cdrom: Path, state_dir: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "8M"], check=True)
    configs = [
        QemuConfig(cdroms=(cdrom,), memory_mib=128, accel="tcg"),
        QemuConfig(cdroms=(cdrom,), disks=(Disk(disk),), memory_mib=128, accel="tcg"),
    ]

    async def save(config: QemuConfig) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await machine.snapshot.save("menu")

    async def restore(config: QemuConfig) -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.snapshot.restore("menu")
            await shown(machine.screen, partial(is_menu, width=720))

    for config in configs:
        for act in (save, restore):
            asyncio.run(act(config))
            vm = find("guest", state_dir)
            assert vm is not None
            vm.stop()
    assert (state_dir / "vmstate.qcow2").stat().st_size > 0
    listed = subprocess.run(["qemu-img", "snapshot", "-l", disk], capture_output=True, text=True, check=True)
    assert "menu" in listed.stdout


def test_a_memory_is_not_put_on_a_raw_disk_that_was_written_to_since(
    cdrom: Path, state_dir: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(1 << 20))
    config = QemuConfig(cdroms=(cdrom,), disks=(Disk(disk, "raw"),), memory_mib=128, accel="tcg")

    async def run() -> None:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await machine.snapshot.save("menu")
            await machine.snapshot.restore("menu")
            disk.touch()
            with pytest.raises(OperationRejectedError, match="is raw, which can't go back") as caught:
                await machine.snapshot.restore("menu")
            assert caught.value.code == "raw disk"
            assert (await machine.screen.screenshot()).width == 720

    asyncio.run(run())


def test_what_qemu_cannot_save_is_said_in_its_words(cdrom: Path, state_dir: Path) -> None:
    blocked = ("-drive", "if=none,id=null,driver=null-co,size=1M", "-device", "nvme,drive=null,serial=1")
    config = QemuConfig(cdroms=(cdrom,), memory_mib=128, accel="tcg", arguments=blocked)

    async def run() -> bool:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            with pytest.raises(OperationRejectedError, match="nvme") as caught:
                await machine.snapshot.save("state")
            assert (caught.value.code, caught.value.operation) == ("failed", "snapshot.save")
            return await machine.freeze.frozen()

    assert not asyncio.run(run())
