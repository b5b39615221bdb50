"""Lends the capabilities of a QEMU machine, starting it where it doesn't run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.console import QemuConsole
from reflexarc.drivers.qemu.keyboard import QemuKeyboard
from reflexarc.drivers.qemu.launch import launch
from reflexarc.drivers.qemu.power import QemuPower
from reflexarc.drivers.qemu.screen import QemuScreen
from reflexarc.machine.capabilities import Capabilities


@asynccontextmanager
async def open_driver(config: QemuConfig, *, machine: str, state_dir: Path) -> AsyncIterator[Capabilities]:
    """Attach to the machine that runs in `state_dir`, else start QEMU there with the machine's power off.

    The machine runs on when the context ends; `launch.find(...).stop()` ends it.
    Raises ConfigError, ConnectError, or MachineBusyError when three programs are attached already.
    """
    vm = await asyncio.to_thread(launch, config, machine=machine, state_dir=state_dir)
    async with AsyncExitStack() as stack:
        monitor = await Monitor.connect(vm)
        stack.push_async_callback(monitor.close)
        screen = QemuScreen(monitor)
        stack.push_async_callback(screen.close)
        console = QemuConsole(monitor)
        stack.push_async_callback(console.close)
        yield Capabilities(
            power=QemuPower(monitor), screen=screen, keyboard=QemuKeyboard(monitor), console=console
        )
