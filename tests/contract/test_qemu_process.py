"""A QEMU that outlives its starters, is shared, is killed, and leaves stale files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import Machine, is_menu, said, shown, stroke

from reflexarc.drivers.qemu.config import Disk, QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import Vm, find, launch
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError, MachineBusyError
from reflexarc.machine.capabilities import PowerState

pytestmark = pytest.mark.guest

# Attaches, reports what it sees of the machine, and stays until its standard input ends.
OBSERVER = """
import asyncio, sys
from pathlib import Path
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver

async def main():
    config = QemuConfig(cdroms=(Path(sys.argv[1]),), memory_mib=128, accel="tcg")
    async with open_driver(config, machine="guest", state_dir=Path(sys.argv[2])) as lent:
        if sys.argv[3] == "on":
            await lent.power.on()
        async for frame in lent.screen.frames():
            if frame.width == 720 or sys.argv[3] == "present":
                break
        print(await lent.power.state(), frame.width, lent.screen.source(), flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def observer(config: QemuConfig, state_dir: Path, *words: str) -> subprocess.Popen[str]:
    arguments: Sequence[str] = [sys.executable, "-c", OBSERVER, str(config.cdroms[0]), str(state_dir), *words]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def running(state_dir: Path) -> Vm:
    vm = find("guest", state_dir)
    assert vm is not None
    return vm


def test_the_machine_survives_the_death_of_its_starter(menu_config: QemuConfig, state_dir: Path) -> None:
    with observer(menu_config, state_dir, "on") as starter:
        assert said_by(starter) == "on 720 D-Bus display, pushed"
        started = running(state_dir)
        starter.kill()

    async def run() -> tuple[PowerState, str]:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            # The display's dead holder has left its lock; what it showed is in text mode, and is seen as such.
            await shown(machine.screen, partial(is_menu, width=720))
            while "pushed" not in machine.screen.source():
                await stroke(machine.keyboard, "g")
                await shown(machine.screen, partial(is_menu, width=1024))
            return await machine.power.state(), machine.screen.source()

    assert asyncio.run(run()) == (PowerState.ON, "D-Bus display, pushed")
    assert running(state_dir) == started


def test_others_see_the_machine_while_one_is_pushed_to(menu_config: QemuConfig, state_dir: Path) -> None:
    async def run() -> tuple[str, str]:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            with observer(menu_config, state_dir, "watch") as other:
                theirs = await asyncio.to_thread(said_by, other)
                other.communicate()
            assert other.returncode == 0
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            return machine.screen.source(), theirs

    assert asyncio.run(run()) == ("D-Bus display, pushed", "on 720 screendump, polled")


def test_three_programs_may_attach_and_no_more(menu_config: QemuConfig, state_dir: Path) -> None:
    launch(menu_config, machine="guest", state_dir=state_dir)

    async def attach(depth: int) -> PowerState:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            return await Machine.of(lent).power.state() if depth == 1 else await attach(depth - 1)

    assert asyncio.run(attach(3)) is PowerState.OFF
    with pytest.raises(MachineBusyError, match="3 programs"):
        asyncio.run(attach(4))
    assert asyncio.run(attach(3)) is PowerState.OFF


def test_one_program_at_a_time_writes_to_the_console(menu_config: QemuConfig, state_dir: Path) -> None:
    async def run() -> None:
        async with (
            open_driver(menu_config, machine="guest", state_dir=state_dir) as first,
            open_driver(menu_config, machine="guest", state_dir=state_dir) as second,
        ):
            await Machine.of(first).console.write("a")
            with pytest.raises(MachineBusyError, match="serial console"):
                await Machine.of(second).console.write("b")
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as third:
            await Machine.of(third).console.write("c")

    asyncio.run(run())


def test_what_is_written_arrives_even_where_the_program_ends_at_once(
    system_config: QemuConfig, state_dir: Path
) -> None:
    line = "word " * 40

    async def write() -> None:
        async with open_driver(system_config, machine="guest", state_dir=state_dir) as lent:
            await Machine.of(lent).power.on()
            await said(Machine.of(lent).console, "READY")
            await Machine.of(lent).console.write(line + "\n")

    async def read() -> None:
        async with open_driver(system_config, machine="guest", state_dir=state_dir) as lent:
            await said(Machine.of(lent).console, f"serial [{line.strip()}]")

    asyncio.run(write())
    asyncio.run(read())


def test_a_killed_machine_ends_every_wait_with_an_error_that_names_its_log(
    menu_config: QemuConfig, state_dir: Path
) -> None:
    async def run() -> list[BaseException]:
        async with open_driver(menu_config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await shown(machine.screen, lambda frame: True)
            waits = [
                asyncio.create_task(shown(machine.screen, lambda frame: frame.signal)),
                asyncio.create_task(said(machine.console, "never said")),
            ]
            await asyncio.sleep(0)
            os.kill(running(state_dir).pid, signal.SIGKILL)
            ended = await asyncio.gather(*waits, machine.power.off(), return_exceptions=True)
            return [error for error in ended if isinstance(error, BaseException)]

    errors = asyncio.run(run())
    assert [type(error) for error in errors[:2]] == [ConnectionLostError, ConnectionLostError]
    for error in errors:
        assert isinstance(error, ConnectionLostError)
        assert str(error).startswith("guest: QEMU (process ")
        assert str(state_dir / "qemu.log") in str(error)
    assert find("guest", state_dir) is None


def test_a_stale_pid_file_is_not_taken_for_a_machine(menu_config: QemuConfig, state_dir: Path) -> None:
    vm = launch(menu_config, machine="guest", state_dir=state_dir)
    os.kill(vm.pid, signal.SIGKILL)
    os.waitpid(vm.pid, 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (state_dir / "qemu.pid").write_text(f"{stranger.pid}\n")
        assert find("guest", state_dir) is None
        vm.stop()
        again = launch(menu_config, machine="guest", state_dir=state_dir)
        assert again.pid not in (vm.pid, stranger.pid)
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert running(state_dir) == again


def test_stop_ends_the_machine_and_a_second_stop_does_nothing(
    menu_config: QemuConfig, state_dir: Path
) -> None:
    vm = launch(menu_config, machine="guest", state_dir=state_dir)
    assert launch(menu_config, machine="guest", state_dir=state_dir) == vm
    vm.stop()
    assert not vm.alive()
    vm.stop()
    assert find("guest", state_dir) is None


def test_a_state_folder_with_a_long_path_works(menu_config: QemuConfig, state_dir: Path) -> None:
    deep = state_dir / ("d" * 60) / ("e" * 60)
    killed = launch(menu_config, machine="guest", state_dir=deep)
    os.kill(killed.pid, signal.SIGKILL)
    os.waitpid(killed.pid, 0)
    vm = launch(menu_config, machine="guest", state_dir=deep)
    try:
        assert vm.sockets == killed.sockets
        assert len(os.fsencode(vm.sockets / "serial.sock")) < 104
        assert vm.sockets.stat().st_mode & 0o777 == 0o700
        assert find("guest", deep) == vm
    finally:
        vm.stop()
    assert not vm.sockets.exists()


def test_a_qemu_that_does_not_start_says_why(state_dir: Path, tmp_path: Path) -> None:
    disk = tmp_path / "broken.qcow2"
    disk.write_bytes(b"this is no qcow2 image")
    with pytest.raises(ConnectError, match="not in qcow2 format"):
        launch(QemuConfig(disks=(Disk(disk),), accel="tcg"), machine="guest", state_dir=state_dir)
    assert find("guest", state_dir) is None


def test_a_program_that_is_no_qemu_says_so(state_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_bytes(b"\x7fnothing that runs")
    program.chmod(0o755)
    with pytest.raises(ConnectError, match=r"guest: QEMU can't be started: .*Exec format error"):
        launch(QemuConfig(binary=str(program), accel="tcg"), machine="guest", state_dir=state_dir)
    with pytest.raises(ConfigError, match="there is no program 'no-such-qemu'; install QEMU"):
        launch(QemuConfig(binary="no-such-qemu"), machine="guest", state_dir=state_dir)


def test_what_the_console_said_before_is_read_first(system_config: QemuConfig, system_dir: Path) -> None:
    async def run() -> None:
        async with open_driver(system_config, machine="guest", state_dir=system_dir) as lent:
            await Machine.of(lent).power.on()
            await said(Machine.of(lent).console, "READY")
        async with open_driver(system_config, machine="guest", state_dir=system_dir) as lent:
            assert "READY" in await Machine.of(lent).console.read()

    asyncio.run(run())


def test_a_qemu_without_the_display_is_polled(cdrom: Path, state_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "qemu-without-dbus"
    program.write_text('#!/bin/sh\n[ "$2" = help ] && echo none && exit\nexec qemu-system-x86_64 "$@"\n')
    program.chmod(0o755)
    config = QemuConfig(binary=str(program), cdroms=(cdrom,), memory_mib=128, accel="tcg")

    async def run() -> str:
        async with open_driver(config, machine="guest", state_dir=state_dir) as lent:
            machine = Machine.of(lent)
            await machine.power.on()
            await shown(machine.screen, partial(is_menu, width=720))
            await stroke(machine.keyboard, "g")
            await shown(machine.screen, partial(is_menu, width=1024))
            return machine.screen.source()

    assert asyncio.run(run()) == "screendump, polled"
