"""Power by QMP. QEMU itself runs on while its machine is off, so that every connection lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import PowerState

EFFECT_TIMEOUT = 10.0
PRESS_INTERVAL = 5.0

RUNNING = "running"
OFF = frozenset({"prelaunch", "shutdown"})
PAUSED = frozenset({"paused", "restore-vm"})


async def power_state(monitor: Monitor) -> PowerState:
    """Ask QEMU whether the machine is on."""
    return PowerState.OFF if await status(monitor) in OFF else PowerState.ON


async def status(monitor: Monitor) -> str:
    """What QEMU calls the machine's state. Source: QEMU, qapi/run-state.json, RunState."""
    answer = await monitor.execute("query-status")
    return str(answer.get("status", "")) if isinstance(answer, dict) else ""


class QemuPower:
    """The machine's power and reset button; implements `Power`. `starting` is awaited before each new start."""

    def __init__(self, monitor: Monitor, starting: Callable[[], Awaitable[None]]) -> None:
        self._monitor = monitor
        self._starting = starting

    async def state(self) -> PowerState:
        return await power_state(self._monitor)

    async def on(self) -> None:
        present = await status(self._monitor)
        if present not in OFF:
            return
        if present == "shutdown":
            await press_reset(self._monitor, "power.on")
        await self._monitor.execute("cont")
        await self._verify(PowerState.ON, "power.on")

    async def off(self) -> None:
        """Cut the power at once, whatever runs.

        The processors are stopped and every device is reset: what a machine is in after power loss, save that
        its memory keeps its contents until it is written again.
        """
        if await self.state() is PowerState.OFF:
            return
        await self._starting()
        await self._monitor.execute("stop")
        await press_reset(self._monitor, "power.off")
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
        """Press the reset button; a frozen machine goes on with it.

        Raises OperationRejectedError on a machine that is off.
        """
        before = await status(self._monitor)
        if before in OFF:
            raise OperationRejectedError(
                "it is off and can't be reset; switch it on",
                machine=self._monitor.peer.machine,
                operation="power.reset",
                code="off",
            )
        await self._starting()
        await press_reset(self._monitor, "power.reset")
        if before in PAUSED:
            await self._monitor.execute("cont")
            await self._verify(PowerState.ON, "power.reset")

    async def cycle(self) -> None:
        await self.off()
        await self.on()

    async def _verify(self, wanted: PowerState, operation: str) -> None:
        deadline = time.monotonic() + EFFECT_TIMEOUT
        while await self.state() is not wanted:
            if time.monotonic() > deadline:
                raise self._unfollowed(operation, f"it is not {wanted} after {EFFECT_TIMEOUT:.0f} s")
            await asyncio.sleep(0.005)

    def _unfollowed(self, operation: str, problem: str) -> OperationTimeoutError:
        return _unfollowed(self._monitor, operation, problem)


async def press_reset(monitor: Monitor, operation: str) -> None:
    """Reset the machine and return when QEMU reports it; one that doesn't run is switched off by it."""
    with monitor.watching("RESET") as done:
        await monitor.execute("system_reset")
        if not await _raised(done, EFFECT_TIMEOUT):
            raise _unfollowed(monitor, operation, f"QEMU reported no reset in {EFFECT_TIMEOUT:.0f} s")
    if monitor.lost:
        raise monitor.lost


def _unfollowed(monitor: Monitor, operation: str, problem: str) -> OperationTimeoutError:
    return OperationTimeoutError(
        f"{problem}; look at its screen", machine=monitor.peer.machine, operation=operation
    )


async def _raised(flag: asyncio.Event, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout):
            await flag.wait()
    except TimeoutError:
        return False
    return True
