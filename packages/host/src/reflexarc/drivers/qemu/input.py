"""Input events over QMP.

Source: QEMU, qapi/ui.json, input-send-event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.power import RUNNING, status
from reflexarc.errors import OperationRejectedError


async def send_input(monitor: Monitor, operation: str, events: Sequence[Mapping[str, object]]) -> None:
    """Deliver the events in one command.

    Raises OperationRejectedError, with the code `not running`, on a machine that is frozen or off.
    """
    try:
        await monitor.execute("input-send-event", {"events": list(events)})
    except OperationRejectedError as error:
        present = await status(monitor)
        if present == RUNNING:
            raise
        raise OperationRejectedError(
            f"it takes no input while it is frozen or off (QEMU says: {present}); thaw it or switch it on",
            machine=monitor.peer.machine,
            operation=operation,
            code="not running",
            detail=error.detail,
        ) from error
