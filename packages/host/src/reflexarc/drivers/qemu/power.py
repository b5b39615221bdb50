"""Power by QMP. QEMU itself runs on while its machine is off, so that every connection lasts."""

from __future__ import annotations

import asyncio
import time

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import PowerState

EFFECT_TIMEOUT = 10.0
PRESS_INTERVAL = 5.0

_OFF = frozenset({"prelaunch", "shutdown"})


async def power_state(monitor: Monitor) -> PowerState:
    """Ask QEMU whether the machine is on."""
    return PowerState.OFF if await _status(monitor) in _OFF else PowerState.ON


async def _status(monitor: Monitor) -> str:
    answer = await monitor.execute("query-status")
    return str(answer.get("status", "")) if isinstance(answer, dict) else ""


class QemuPower:
    """The machine's power and reset button; implements `Power`."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    async def state(self) -> PowerState:
        return await power_state(self._monitor)

    async def on(self) -> None:
        status = await _status(self._monitor)
        if status not in _OFF:
            return
        if status == "shutdown":
            await self._reset("power.on")
        await self._monitor.execute("cont")
        await self._verify(PowerState.ON, "power.on")

    async def off(self) -> None:
        """Cut the power at once, whatever runs.

        The processors are stopped and every device is reset: what a machine is in after power loss, save that
        its memory keeps its contents until it is written again.
        """
        if await self.state() is PowerState.OFF:
            return
        await self._monitor.execute("stop")
        await self._reset("power.off")
        await self._verify(PowerState.OFF, "power.off")

    async def shutdown(self, timeout: float) -> None:
        """Press the power button until the system has shut down: a system still starting misses the first."""
        deadline = time.monotonic() + timeout
        with self._monitor.watching("SHUTDOWN", "STOP") as changed:
            while await self.state() is PowerState.ON:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unfollowed("power.shutdown", f"the system did not shut down in {timeout:g} s")
                await self._monitor.execute("system_powerdown")
                await _raised(changed, min(left, PRESS_INTERVAL))

    async def reset(self) -> None:
        """Press the reset button; raises OperationRejectedError on a machine that is off."""
        if await self.state() is PowerState.OFF:
            raise OperationRejectedError(
                "it is off and can't be reset; switch it on",
                machine=self._monitor.vm.machine,
                operation="power.reset",
                code="off",
            )
        await self._reset("power.reset")

    async def cycle(self) -> None:
        await self.off()
        await self.on()

    async def _reset(self, operation: str) -> None:
        with self._monitor.watching("RESET") as done:
            await self._monitor.execute("system_reset")
            if not await _raised(done, EFFECT_TIMEOUT):
                raise self._unfollowed(operation, f"QEMU reported no reset in {EFFECT_TIMEOUT:.0f} s")
        if self._monitor.lost:
            raise self._monitor.lost

    async def _verify(self, wanted: PowerState, operation: str) -> None:
        deadline = time.monotonic() + EFFECT_TIMEOUT
        while await self.state() is not wanted:
            if time.monotonic() > deadline:
                raise self._unfollowed(operation, f"it is not {wanted} after {EFFECT_TIMEOUT:.0f} s")
            await asyncio.sleep(0.005)

    def _unfollowed(self, operation: str, problem: str) -> OperationTimeoutError:
        return OperationTimeoutError(
            f"{problem}; look at its screen", machine=self._monitor.vm.machine, operation=operation
        )


async def _raised(flag: asyncio.Event, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout):
            await flag.wait()
    except TimeoutError:
        return False
    return True
