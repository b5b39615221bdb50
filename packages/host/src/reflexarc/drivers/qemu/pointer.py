"""The pointer over QMP: absolute places on QEMU's axes, whatever device of the machine takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.input import send_input
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Button

# Source: QEMU, qapi/ui.json, InputMoveEvent: 0 to 0x7fff on each axis.
_AXIS = 0x8000
MAX_LINES = 1000

Size = tuple[int, int]


async def has_pointer(monitor: Monitor) -> bool:
    """Tell whether the machine has a device that takes absolute places."""
    mice = await monitor.execute("query-mice")
    return isinstance(mice, list) and any(isinstance(m, dict) and m.get("absolute") is True for m in mice)


class QemuPointer:
    """The machine's tablet; implements `Pointer`. `size` tells width and height of the present picture."""

    def __init__(self, monitor: Monitor, size: Callable[[], Awaitable[Size]]) -> None:
        self._monitor = monitor
        self._size = size

    async def move(self, x: int, y: int) -> None:
        width, height = await self._size()
        if not (0 <= x < width and 0 <= y < height):
            raise self._rejected(
                f"({x}, {y}) is not on its screen of {width}x{height} pixels; look where to point",
                "pointer.move",
                "outside",
            )
        await send_input(self._monitor, "pointer.move", [_axis("x", x, width), _axis("y", y, height)])

    async def button(self, button: Button, down: bool) -> None:
        await send_input(self._monitor, "pointer.click", [_button(button, down)])

    async def scroll(self, dx: int, dy: int) -> None:
        """Turn the wheel; raises OperationRejectedError for a turn sideways, which QEMU's tablet doesn't know."""
        if dx:
            raise self._rejected(
                "QEMU's tablet has no wheel that scrolls sideways; use the keyboard",
                "pointer.scroll",
                "wheel",
            )
        if abs(dy) > MAX_LINES:
            raise self._rejected(
                f"at most {MAX_LINES} lines are scrolled at once, not {abs(dy)}", "pointer.scroll", "too far"
            )
        name = "wheel-down" if dy > 0 else "wheel-up"
        # A notch an event: what is sent together is reported to the machine as one.
        for _ in range(abs(dy)):
            for down in (True, False):
                await send_input(self._monitor, "pointer.scroll", [_button(name, down)])

    def _rejected(self, problem: str, operation: str, code: str) -> OperationRejectedError:
        machine = self._monitor.peer.machine
        return OperationRejectedError(problem, machine=machine, operation=operation, code=code)


def _axis(axis: str, place: int, size: int) -> dict[str, object]:
    """The middle of the pixel: every guest's way of rounding leads back to it."""
    value = (2 * place + 1) * _AXIS // (2 * size)
    return {"type": "abs", "data": {"axis": axis, "value": value}}


def _button(name: str, down: bool) -> dict[str, object]:
    return {"type": "btn", "data": {"down": down, "button": str(name)}}
