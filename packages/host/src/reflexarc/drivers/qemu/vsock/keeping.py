"""Keeps a running machine's vsock device in working order: unplugged to save states, plugged in again after a loss.

QEMU can't save a machine with such a device, and doesn't notice when the device's process has ended.
Source: QEMU, qapi/qdev.json.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.launch import Vm
from reflexarc.drivers.qemu.power import OFF, PAUSED, press_reset, status
from reflexarc.drivers.qemu.vsock import plugging, process
from reflexarc.errors import ConnectError, MachineError, OperationRejectedError
from reflexarc.machine.lock import FileLock

UNPLUG_PATIENCE = 15.0
# How long a guest is asked that is going to be reset anyway.
SHORT_PATIENCE = 3.0
_TURN = 0.05
_log = logging.getLogger("reflexarc.qemu")


class VsockKeeper:
    """The device of a machine that `launch` started with one of ours."""

    def __init__(self, monitor: Monitor, vm: Vm) -> None:
        self._monitor = monitor
        self._vm = vm
        self._lock = FileLock(vm.folder / "vsock.lock")
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def ensure(self) -> None:
        """Bring the device back where it was lost.

        Raises MachineError where the guest doesn't let go of the old one.
        """
        async with self._alone():
            await self._ensure()

    @asynccontextmanager
    async def unplugged(self, operation: str, *, may_reset: bool) -> AsyncIterator[None]:
        """Take the device out while the context lasts: its connections end.

        may_reset: reset a machine whose guest doesn't let go of it. Raises OperationRejectedError where it isn't let
        go of.
        """
        async with self._alone():
            await self._unplug(operation, may_reset=may_reset)
            try:
                yield
            finally:
                if self._monitor.lost is None:
                    await self._ensure()

    async def follow(self) -> None:
        """Bring the device back where it was lost, now and until `close`."""
        await self._try()
        self._task = asyncio.create_task(self._follow(), name=f"{self._machine}: vsock")

    async def close(self) -> None:
        """Stop following; the device stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _machine(self) -> str:
        return self._monitor.peer.machine

    async def _follow(self) -> None:
        with self._monitor.watching("DEVICE_DELETED") as flag:
            self._changed = flag
            while self._monitor.lost is None:
                flag.clear()
                await self._wait(flag)
                await self._try()

    async def _wait(self, flag: asyncio.Event) -> None:
        """Wait until the device was unplugged or its process has ended."""
        loop = asyncio.get_running_loop()
        end = _end_of(process.running(self._vm.folder))
        if end is not None:
            loop.add_reader(end, flag.set)
        try:
            await flag.wait()
        finally:
            if end is not None:
                loop.remove_reader(end)
                os.close(end)

    async def _try(self) -> None:
        try:
            await self.ensure()
        except MachineError as error:
            if self._monitor.lost is None:
                _log.warning("%s", error)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Keeps this and other programs from plugging at the same time."""
        async with self._turn:
            while not self._lock.take():  # noqa: ASYNC110  (other processes hold it, too)
                await asyncio.sleep(_TURN)
            try:
                yield
            finally:
                self._lock.release()

    async def _ensure(self) -> None:
        if process.running(self._vm.folder) is None:
            _log.info("%s: the process of its vsock device has ended; it is started anew", self._machine)
            await self._unplug("vsock", may_reset=False)
            await asyncio.to_thread(self._start)
        if not await self._is_plugged():
            await self._disconnect()
            await self._monitor.execute("chardev-add", plugging.chardev(self._vm.sockets))
            await self._monitor.execute("device_add", plugging.device(self._vm.arguments))

    def _start(self) -> None:
        try:
            process.start(self._vm.folder, self._vm.sockets)
        except OSError as error:
            raise ConnectError(
                f"the process of its vsock device can't be started: {error}", machine=self._machine
            ) from error

    async def _unplug(self, operation: str, *, may_reset: bool) -> None:
        present = await status(self._monitor)
        with self._monitor.watching("DEVICE_DELETED", "DEVICE_UNPLUG_GUEST_ERROR") as flag:
            if await self._is_plugged():
                with suppress(OperationRejectedError):  # it is asked for already
                    await self._monitor.execute("device_del", {"id": plugging.DEVICE})
            patience = SHORT_PATIENCE if may_reset else UNPLUG_PATIENCE
            if present in OFF or present in PAUSED:
                patience = 0.0
            gone = await self._is_gone(flag, patience)
            if not gone and (may_reset or present in OFF):
                await press_reset(self._monitor, operation)
                gone = await self._is_gone(flag, SHORT_PATIENCE)
        if not gone:
            raise self._kept(operation, frozen=present in PAUSED)
        await self._disconnect()

    async def _is_gone(self, flag: asyncio.Event, patience: float) -> bool:
        """Wait for the device to go; what a reset or the guest's system takes out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while await self._is_plugged():
                    flag.clear()
                    await flag.wait()
        return not await self._is_plugged()

    async def _is_plugged(self) -> bool:
        answer = await self._monitor.execute("qom-list", {"path": "/machine/peripheral"})
        return isinstance(answer, list) and any(one.get("name") == plugging.DEVICE for one in answer)

    async def _disconnect(self) -> None:
        """Close QEMU's connection to the process, so that the next device begins with one of its own."""
        with suppress(OperationRejectedError):
            await self._monitor.execute("chardev-remove", {"id": plugging.CHARDEV})

    def _kept(self, operation: str, *, frozen: bool) -> OperationRejectedError:
        why = (
            "it is frozen; let it go on, and try again"
            if frozen
            else f"its guest did not let go of it within {UNPLUG_PATIENCE:.0f} s; that takes a system that is up"
        )
        return OperationRejectedError(
            f"its vsock device can't be unplugged: {why}",
            machine=self._machine,
            operation=operation,
            code="vsock",
        )


def _end_of(pid: int | None) -> int | None:
    """A descriptor that becomes readable when the process has ended."""
    if sys.platform == "linux" and pid is not None:
        with suppress(ProcessLookupError):
            return os.pidfd_open(pid)
    return None
