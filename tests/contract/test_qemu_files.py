"""What a machine leaves in its folder: nothing for others to read, and no word of its console once it is stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.contract.rigs import Machine, shown

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import CONSOLE_LOGS, find, launch
from reflexarc.inventory import entries, opening
from reflexarc.inventory.places import places
from reflexarc.machine.capabilities import BootDevice
from reflexarc.observation import Phase
from reflexarc.playbook.events import Aborted, Lost, Started
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger

pytestmark = pytest.mark.guest


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_no_file_of_a_machine_is_for_others(menu_config: QemuConfig, state_dir: Path) -> None:
    async def run() -> None:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, lambda frame: frame.signal)
            await machine.boot.set(BootDevice.CDROM, once=False)
            await machine.console.write("x")
            await machine.snapshot.save("state")

    with umask(0):
        asyncio.run(run())
    assert {path.name for path in state_dir.iterdir()} >= {
        "vm.json",
        "qemu.pid",
        "qemu.log",
        "serial.log",
        "boot.json",
        "vmstate.qcow2",
    }
    modes = {path.name: path.stat().st_mode & 0o077 for path in (state_dir, *state_dir.iterdir())}
    assert set(modes.values()) == {0}, modes


def test_a_stop_takes_what_the_console_said_with_it(menu_config: QemuConfig, state_dir: Path) -> None:
    logs = [state_dir / name for name in CONSOLE_LOGS]

    def started() -> list[bool]:
        launch(menu_config, machine="guest", state_dir=state_dir)
        return [log.exists() for log in logs]

    def stopped(*, keep_console: bool) -> list[bool]:
        vm = find("guest", state_dir)
        assert vm is not None
        vm.stop(keep_console=keep_console)
        return [log.exists() for log in logs]

    assert started() == [True, False]
    assert stopped(keep_console=True) == [True, False]
    assert started() == [True, True]
    assert stopped(keep_console=False) == [False, False]


def test_what_the_console_said_is_kept_while_a_run_is_held(
    cdrom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "reflexarc"))
    inventory = tmp_path / "reflexarc.toml"
    inventory.write_text(
        f'[machines.guest]\ndrivers = ["qemu"]\nqemu = {{cdrom = "{cdrom}", memory_mib = 128, accel = "tcg"}}\n'
    )
    entry = entries.load(inventory).entry("guest")
    found = places()
    log = found.machine(entry.place) / CONSOLE_LOGS[0]
    step = {"name": "menu", "wait_for": "grub_menu"}
    phases = (Phase("grub_menu"), Phase("unknown"))
    begun = Started(1.0, "run", "guest", {"name": "p", "steps": [step]}, phases, place=entry.place)
    opening.start_vm(entry)
    try:
        with closing(Journal(found.journal)) as journal:
            ledger = Ledger.begin(journal, begun)
            ledger.record(Lost(2.0, "gone"))
            assert [run.stage for run in journal.runs()] == ["held"]
            opening.stop_vm(entry)
            assert log.exists()
            ledger.record(Aborted(3.0, "enough", "a person"))
            assert [run.stage for run in journal.runs()] == ["ended"]
        opening.start_vm(entry)
    finally:
        opening.stop_vm(entry)
    assert not log.exists()
