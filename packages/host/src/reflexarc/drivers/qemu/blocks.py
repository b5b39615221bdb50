"""The machine's drives, as QEMU tells of them.

Source: QEMU, qapi/block-core.json, query-block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import PeerProtocolError


@dataclass(frozen=True)
class Drive:
    """A drive. `address` is how QMP commands name it; `device` its path or id among the devices, if it is one.

    file: what is in it, None where it is empty. node, kind: the image's node and format, None where empty.
    flash: it holds firmware, whose contents are part of the machine's memory.
    """

    address: Mapping[str, str]
    device: str | None
    removable: bool
    tray_open: bool
    file: str | None
    node: str | None
    kind: str | None
    read_only: bool
    flash: bool


async def drives(monitor: Monitor) -> list[Drive]:
    """All drives, in QEMU's order."""
    answer = await monitor.execute("query-block")
    try:
        return [_drive(one) for one in _list(answer)]
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise PeerProtocolError(
            f"QEMU's list of drives can't be understood: {error!r}",
            machine=monitor.peer.machine,
            operation="query-block",
            raw=str(answer).encode(),
        ) from error


def _list(answer: object) -> list[Mapping[str, object]]:
    if not isinstance(answer, list) or not all(isinstance(one, dict) for one in answer):
        raise ValueError("no list of tables")
    return answer


def _drive(told: Mapping[str, object]) -> Drive:
    inserted = told.get("inserted") or {}
    if not isinstance(inserted, Mapping):
        raise TypeError(inserted)
    device = str(told["qdev"]) if told.get("qdev") else None
    # From QEMU 6.0 on a drive may have a device and no name; older ones always have a name.
    name = str(told.get("device") or "")
    return Drive(
        address={"id": device} if device else {"device": name},
        device=device,
        removable=told.get("removable") is True and "tray_open" in told,
        tray_open=told.get("tray_open") is True,
        file=str(inserted["file"]) if "file" in inserted else None,
        node=str(inserted["node-name"]) if inserted.get("node-name") else None,
        kind=str(inserted["drv"]) if "drv" in inserted else None,
        read_only=inserted.get("ro") is True,
        flash="flash" in (device or name),
    )
