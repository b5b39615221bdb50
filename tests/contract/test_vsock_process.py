"""The device's process beside no QEMU at all: who may talk to it, what it makes of nonsense, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.talking import RefusedError, connect, everything

from reflexarc.drivers.qemu.vsock import process

assert sys.platform == "linux"  # the device is for no other

NONSENSE = (
    b"GET / HTTP/1.1\r\n\r\n", b"CONNECT\n", b"CONNECT x\n", b"CONNECT -1\n", b"CONNECT 4294967295\n",
    b"CONNECT 99999999999999999999999", b"connect 2035\n", b"\n", bytes(30), b"\xff" * 30,
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a machine whose process runs."""
    process.start(tmp_path, tmp_path)
    yield tmp_path
    process.stop(tmp_path)


def said(folder: Path, line: bytes) -> bytes:
    """Say a line and read until the end."""
    with socket.socket(socket.AF_UNIX) as program:
        # With a timeout it would not wait for its turn to be taken in.
        program.connect(str(folder / process.SOCKET))
        program.settimeout(10)
        program.sendall(line)
        return everything(program)


def pid(folder: Path) -> int:
    found = process.running(folder)
    assert found is not None
    return found


def open_files(folder: Path) -> int:
    return len(os.listdir(f"/proc/{pid(folder)}/fd"))


def test_without_a_guest_a_program_is_let_go_without_a_word(folder: Path) -> None:
    assert said(folder, b"CONNECT 2035\n") == b""
    with pytest.raises(RefusedError):
        connect(folder / process.SOCKET)


@pytest.mark.parametrize("line", NONSENSE)
def test_a_program_that_does_not_greet_is_let_go(line: bytes, folder: Path) -> None:
    with suppress(ConnectionResetError, BrokenPipeError):  # what it said was not read to the end
        assert said(folder, line) == b""
    assert said(folder, b"CONNECT 2035\n") == b""


def test_ten_thousand_greetings_that_are_none_and_abrupt_ends_leave_nothing_behind(folder: Path) -> None:
    said(folder, b"\n")
    before = open_files(folder)
    for number in range(10_000):
        with socket.socket(socket.AF_UNIX) as program:
            program.connect(str(folder / process.SOCKET))
            program.sendall(NONSENSE[number % len(NONSENSE)][: number % 40])
    assert said(folder, b"CONNECT 2035\n") == b""
    deadline = time.monotonic() + 30
    while open_files(folder) > before and time.monotonic() < deadline:
        said(folder, b"\n")
    assert open_files(folder) == before


def test_only_this_user_gets_in(folder: Path) -> None:
    modes = {name: (folder / name).stat().st_mode & 0o777 for name in os.listdir(folder)}
    assert modes == dict.fromkeys(modes, 0o600)
    assert {process.SOCKET, process.FRONT_END_SOCKET, process.PID_FILE, process.LOG_FILE} <= set(modes)


def test_there_is_one_process_a_machine(folder: Path) -> None:
    first = pid(folder)
    with pytest.raises(BlockingIOError):
        process.start(folder, folder)
    assert process.running(folder) == first


def test_it_is_stopped_and_can_be_started_again(folder: Path) -> None:
    first = pid(folder)
    process.stop(folder)
    process.stop(folder)
    assert process.running(folder) is None
    assert not Path(f"/proc/{first}").exists()
    process.start(folder, folder)
    assert said(folder, b"CONNECT 2035\n") == b""


def test_a_process_that_was_killed_is_known_to_be_gone(folder: Path) -> None:
    killed = pid(folder)
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)
    assert process.running(folder) is None
    with pytest.raises(RefusedError):
        connect(folder / process.SOCKET)


def test_a_number_that_another_process_has_now_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / process.PID_FILE).write_text(str(os.getpid()))
    assert process.running(tmp_path) is None
    process.stop(tmp_path)


def test_it_ends_once_qemu_has(folder: Path) -> None:
    """QEMU connects and is gone, and holds no pid file."""
    ending = os.pidfd_open(pid(folder))
    with socket.socket(socket.AF_UNIX) as qemu:
        qemu.connect(str(folder / process.FRONT_END_SOCKET))
    os.waitid(os.P_PIDFD, ending, os.WEXITED | os.WNOWAIT)
    os.close(ending)
    assert process.running(folder) is None
