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
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.contract.rigs import Machine, said
from tests.guests import build_python
from tests.talking import MODULES, TALKER, RefusedError, ask, connect, everything, pattern, reached

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.driver import open_driver
from reflexarc.drivers.qemu.launch import Vm, find
from reflexarc.drivers.qemu.vsock import process

pytestmark = [pytest.mark.guest, pytest.mark.timeout(240)]
SIZE = 3_000_000


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

    def drive[T](self, act: Callable[[Machine], Awaitable[T]]) -> T:
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
        await said(machine.console, "READY")

    guest = Guest(config, folder, folder / process.SOCKET)
    guest.drive(start)
    assert guest.vm.vsock == guest.path
    assert reached(guest.path)
    return guest
