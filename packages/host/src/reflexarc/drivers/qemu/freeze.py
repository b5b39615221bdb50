"""Standing still: the virtual processors stopped, the power on."""

from __future__ import annotations

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.power import OFF, PAUSED, status
from reflexarc.errors import OperationRejectedError, OperationTimeoutError


class QemuFreeze:
    """Stops and continues the machine; implements `Freeze`."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    async def frozen(self) -> bool:
        return await status(self._monitor) in PAUSED

    async def freeze(self) -> None:
        if await status(self._monitor) in OFF:
            raise OperationRejectedError(
                "it is off and can't be frozen; switch it on",
                machine=self._monitor.peer.machine,
                operation="freeze.on",
                code="off",
            )
        await self._monitor.execute("stop")
        await self._verify("freeze.on", frozen=True)

    async def thaw(self) -> None:
        """Let the machine go on; does nothing where it isn't frozen."""
        if await self.frozen():
            await self._monitor.execute("cont")
            await self._verify("freeze.off", frozen=False)

    async def _verify(self, operation: str, *, frozen: bool) -> None:
        if await self.frozen() is not frozen:
            raise OperationTimeoutError(
                f"QEMU took the command, and the machine is {'not ' if frozen else 'still '}frozen",
                machine=self._monitor.peer.machine,
                operation=operation,
            )
