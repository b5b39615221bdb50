"""Lends the capabilities of a QEMU machine: one that is launched where it doesn't run, or one that others run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from reflexarc.drivers.qemu.attach import Attached, attach
from reflexarc.drivers.qemu.boot import QemuBoot
from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.console import QemuConsole, SocketConsole
from reflexarc.drivers.qemu.freeze import QemuFreeze
from reflexarc.drivers.qemu.keyboard import QemuKeyboard
from reflexarc.drivers.qemu.launch import Vm, launch
from reflexarc.drivers.qemu.media import QemuMedia, has_cdrom
from reflexarc.drivers.qemu.pointer import QemuPointer, has_pointer
from reflexarc.drivers.qemu.power import QemuPower
from reflexarc.drivers.qemu.screen import QemuScreen
from reflexarc.drivers.qemu.snapshot import QemuSnapshot
from reflexarc.drivers.qemu.vsock.keeping import VsockKeeper
from reflexarc.drivers.qemu.vsock.plugging import USER_SPACE
from reflexarc.machine.capabilities import Capabilities


@asynccontextmanager
async def open_driver(config: QemuConfig, *, machine: str, state_dir: Path) -> AsyncIterator[Capabilities]:
    """Connect to the machine that runs in `state_dir` or at `config.attach`; else start QEMU, with the power off.

    The machine runs on when the context ends; `launch.find(...).stop()` ends one that was started.
    Raises ConfigError, ConnectError, or MachineBusyError when too many programs are connected already.
    """
    peer: Vm | Attached
    if config.attach is not None:
        peer = attach(config, machine=machine, state_dir=state_dir)
    else:
        peer = await asyncio.to_thread(launch, config, machine=machine, state_dir=state_dir)
    async with AsyncExitStack() as stack:
        monitor = await Monitor.connect(peer)
        stack.push_async_callback(monitor.close)
        screen = QemuScreen(monitor)
        stack.push_async_callback(screen.close)
        console = _console(monitor, peer)
        if console is not None:
            stack.push_async_callback(console.close)
        boot = QemuBoot(monitor)
        boot.follow()
        stack.push_async_callback(boot.close)
        vsock = _vsock(monitor, peer)
        if vsock is not None:
            stack.push_async_callback(vsock.close)
            await vsock.follow()
        yield Capabilities(
            power=QemuPower(monitor, boot.use_up),
            screen=screen,
            keyboard=QemuKeyboard(monitor),
            console=console,
            pointer=QemuPointer(monitor, screen.size) if await has_pointer(monitor) else None,
            media=QemuMedia(monitor) if await has_cdrom(monitor) else None,
            boot=boot,
            snapshot=QemuSnapshot(monitor, vsock),
            freeze=QemuFreeze(monitor),
        )


def _console(monitor: Monitor, peer: Vm | Attached) -> QemuConsole | SocketConsole | None:
    if isinstance(peer, Vm):
        return QemuConsole(monitor, peer.sockets / "serial.sock", peer.folder / "serial.log")
    return None if peer.serial is None else SocketConsole(monitor, peer.serial)


def _vsock(monitor: Monitor, peer: Vm | Attached) -> VsockKeeper | None:
    return VsockKeeper(monitor, peer) if isinstance(peer, Vm) and peer.cid == USER_SPACE else None
