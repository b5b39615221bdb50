"""A real guest behind the device: its own driver, its own kernel's sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from tests.contract.rigs import Machine
from tests.guests import build_python
from tests.talking import MODULES, TALKER, RefusedError, ask, connect, everything, pattern, reached

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import Vm, find
from reflexarc.drivers.qemu.vsock import process
from reflexarc.errors import OperationRejectedError

T = TypeVar("T")
pytestmark = [pytest.mark.guest, pytest.mark.timeout(240)]
SIZE = 3_000_000
BOOT_PATIENCE = 180.0


@dataclass(frozen=True)
class Guest:
    """A machine that is up. `path` is where its guest is reached."""

    config: QemuConfig
    folder: Path
    path: Path

    @property
    def vm(self) -> Vm:
        vm = find("guest", self.folder)
        assert vm is not None
        return vm

    def drive(self, act: Callable[[Machine], Awaitable[T]]) -> T:
        """Open the machine, as a program does that comes later, and act."""

        async def run() -> T:
            async with open_driver(self.config, machine="guest", state_dir=self.folder) as lent:
                return await act(Machine.of(lent))

        return asyncio.run(run())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_python(tmp_path_factory.mktemp("python"), TALKER, MODULES)


def started(config: QemuConfig, folder: Path) -> Guest:
    async def start(machine: Machine) -> None:
        await machine.power.on()

    guest = Guest(config, folder, folder / process.SOCKET)
    guest.drive(start)
    assert guest.vm.vsock == guest.path
    assert reached(guest.path, BOOT_PATIENCE)
    return guest


@pytest.fixture(scope="module")
def guest(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """One for all tests that leave it as it was."""
    config = QemuConfig(binary=str(program), memory_mib=256, accel="tcg", vsock=True)
    guest = started(config, tmp_path_factory.mktemp("vsock"))
    yield guest
    guest.vm.stop()
    assert process.running(guest.folder) is None


def listening(guest: Guest, port: int) -> socket.socket:
    """Where the guest's connections to a port of the host arrive."""
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(60)
    listener.bind(f"{guest.path}_{port}")
    listener.listen()
    return listener


def open_files(guest: Guest) -> int:
    return len(os.listdir(f"/proc/{process.running(guest.folder)}/fd"))


def until(settled: Callable[[], bool]) -> None:
    """Ask over and over until it is so."""
    deadline = time.monotonic() + 60
    while not settled():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_the_guest_sees_the_host_and_answers(guest: Guest) -> None:
    assert ask(guest.path, "peer") == b"2\n"
    assert ask(guest.path, "echo", pattern(SIZE // 10)) == pattern(SIZE // 10)


def test_a_port_that_nothing_listens_at_is_refused(guest: Guest) -> None:
    with pytest.raises(RefusedError):
        connect(guest.path, 99)


def test_the_guest_connects_to_the_host(guest: Guest) -> None:
    heard = []

    def answer(listener: socket.socket) -> None:
        program, _ = listener.accept()
        with program:
            heard.append(everything(program))
            program.sendall(b"host")

    with listening(guest, 5000) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        assert ask(guest.path, "call 5000") == b"host"
        thread.join()
    assert heard == [b"guest"]
    assert b"ConnectionResetError" in ask(guest.path, "call 5001")


def test_what_is_sent_before_a_close_arrives_whole_at_a_slow_reader(guest: Guest) -> None:
    with connect(guest.path) as program:
        program.sendall(b"send %d\n" % SIZE)
        until(lambda: len(program.recv(1 << 20, socket.MSG_PEEK)) > 100_000)
        parts = []
        while part := program.recv(4096):
            parts.append(part)
    assert b"".join(parts) == pattern(SIZE)


def test_each_direction_ends_by_itself(guest: Guest) -> None:
    assert ask(guest.path, "count", pattern(SIZE)) == b"%d\n" % SIZE
    with connect(guest.path) as program:
        program.sendall(b"half 1000\n")
        assert everything(program) == pattern(1000)
        program.sendall(pattern(2000))
        program.shutdown(socket.SHUT_WR)
    log = guest.folder / "serial.log"
    until(lambda: "counted 2000" in log.read_text())


def test_what_a_program_wrote_before_it_closed_arrives_whole(guest: Guest) -> None:
    with connect(guest.path) as program:
        program.sendall(b"half 0\n" + pattern(1_234_567))
    log = guest.folder / "serial.log"
    until(lambda: "counted 1234567" in log.read_text())


def fill(program: socket.socket) -> None:
    """Write until nothing more is taken."""
    program.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            program.send(bytes(1 << 16))


def test_a_hundred_connections_at_once_and_one_that_nobody_reads(guest: Guest) -> None:
    before = open_files(guest)
    with connect(guest.path) as stalled:
        stalled.sendall(b"stall\n")
        assert stalled.recv(8) == b"stalled\n"
        fill(stalled)
        sizes = [20_000 + 1000 * number for number in range(100)]
        with ThreadPoolExecutor(100) as pool:
            got = list(pool.map(lambda size: ask(guest.path, "echo", pattern(size)), sizes))
    assert [len(one) for one in got] == sizes
    assert all(one == pattern(len(one)) for one in got)
    # What was sent to the program that reads nothing is kept for half a minute.
    until(lambda: open_files(guest) <= before + 1)


def test_a_state_is_saved_and_gone_back_to_and_connections_end(guest: Guest) -> None:
    async def save_and_restore(machine: Machine) -> None:
        await machine.snapshot.save("state")
        await asyncio.to_thread(end_is_read, first)
        assert await asyncio.to_thread(reached, guest.path)
        second = await asyncio.to_thread(connect, guest.path)
        await machine.snapshot.restore("state")
        await asyncio.to_thread(end_is_read, second)

    first = connect(guest.path)
    guest.drive(save_and_restore)
    assert reached(guest.path)


def test_a_guest_that_was_frozen_is_reached_again(guest: Guest) -> None:
    async def freeze_and_thaw(machine: Machine) -> bool:
        first = await asyncio.to_thread(connect, guest.path)
        await machine.freeze.freeze()
        await asyncio.to_thread(end_is_read, first)
        await machine.freeze.thaw()
        return await asyncio.to_thread(reached, guest.path)

    assert guest.drive(freeze_and_thaw)


def end_is_read(program: socket.socket) -> None:
    with program:
        assert program.recv(1) == b""


def kill(guest: Guest) -> None:
    pid = process.running(guest.folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: process.running(guest.folder) != pid)


def test_a_process_that_was_killed_comes_back_while_somebody_has_the_machine_open(guest: Guest) -> None:
    async def lose(machine: Machine) -> bool:
        first = await asyncio.to_thread(connect, guest.path)
        kill(guest)
        await asyncio.to_thread(end_is_read, first)
        return await asyncio.to_thread(reached, guest.path)

    assert guest.drive(lose)


def test_a_process_that_was_killed_comes_back_when_somebody_opens_the_machine(guest: Guest) -> None:
    async def look(machine: Machine) -> bool:
        return await asyncio.to_thread(reached, guest.path)

    kill(guest)
    with pytest.raises(RefusedError):
        connect(guest.path)
    assert guest.drive(look)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine_type", ["pc", "q35"])
def test_a_guest_that_restarts_is_reached_again(machine_type: str, program: Path, tmp_path: Path) -> None:
    config = QemuConfig(
        binary=str(program), memory_mib=256, accel="tcg", vsock=True, machine_type=machine_type
    )
    guest = started(config, tmp_path)
    try:
        for restart in (partial(ask, guest.path, "reboot"), partial(guest.drive, lambda m: m.power.reset())):
            with connect(guest.path) as open_:
                restart()
                assert open_.recv(1) == b""
            assert reached(guest.path, BOOT_PATIENCE)
        pid = process.running(tmp_path)
        test_a_state_is_saved_and_gone_back_to_and_connections_end(guest)
        guest.drive(off_and_restored)
        assert reached(guest.path)
        assert process.running(tmp_path) == pid
        test_a_process_that_was_killed_comes_back_when_somebody_opens_the_machine(guest)
    finally:
        guest.vm.stop()


async def off_and_restored(machine: Machine) -> None:
    await machine.power.off()
    await machine.snapshot.restore("state")


@pytest.mark.full
def test_a_firmware_keeps_the_device_and_that_is_said(state_dir: Path, cdrom: Path) -> None:
    """At a boot loader no system is up that could let go of it."""
    guest = Guest(QemuConfig(cdroms=(cdrom,), memory_mib=128, accel="tcg", vsock=True), state_dir, Path())

    async def save(machine: Machine) -> None:
        await machine.power.on()
        with pytest.raises(OperationRejectedError, match="can't be unplugged: its guest did not let go"):
            await machine.snapshot.save("menu")
        await machine.freeze.freeze()
        with pytest.raises(OperationRejectedError, match="it is frozen"):
            await machine.snapshot.save("menu")

    guest.drive(save)


def test_a_folder_with_a_long_name_has_its_socket_elsewhere_and_the_process_goes_with_qemu(
    tmp_path: Path, cdrom: Path
) -> None:
    folder = tmp_path / ("long" * 30)
    guest = Guest(QemuConfig(cdroms=(cdrom,), memory_mib=128, accel="tcg", vsock=True), folder, Path())

    async def nothing(machine: Machine) -> None:
        assert machine is not None

    guest.drive(nothing)
    vm = guest.vm
    try:
        assert isinstance(vm.vsock, Path)
        assert (vm.vsock.parent.stat().st_mode & 0o777, folder in vm.vsock.parents) == (0o700, False)
        with pytest.raises(RefusedError):
            connect(vm.vsock)
        os.kill(vm.pid, signal.SIGKILL)
        until(lambda: process.running(folder) is None)
    finally:
        vm.stop()
