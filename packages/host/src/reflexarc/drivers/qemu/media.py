"""Images in the machine's first CD drive."""

from __future__ import annotations

from pathlib import Path

from reflexarc.drivers.qemu.blocks import Drive, drives
from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import OperationRejectedError, OperationTimeoutError


async def has_cdrom(monitor: Monitor) -> bool:
    """Tell whether the machine has a CD drive."""
    return any(drive.removable for drive in await drives(monitor))


class QemuMedia:
    """The first CD drive; implements `VirtualMedia`. Sources are paths of images on this host."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    async def inserted(self) -> str | None:
        return (await self._drive("media.mount")).file

    async def insert(self, source: str) -> None:
        """Put an image in; raises OperationRejectedError where there is none that QEMU can open."""
        path = _path(source)
        if path is None:
            raise self._rejected(
                "media.mount", f"there is no image {source}; create it or correct the path", "absent"
            )
        await self._open("media.mount")
        drive = await self._drive("media.mount")
        await self._monitor.execute(
            "blockdev-change-medium",
            {**drive.address, "filename": str(path), "format": "raw", "read-only-mode": "read-only"},
        )
        found = await self.inserted()
        if found is None or _path(found) != path:
            raise self._unfollowed("media.mount", f"the drive holds {found or 'nothing'}, not {path}")

    async def eject(self) -> None:
        await self._open("media.eject")
        drive = await self._drive("media.eject")
        if drive.file is not None:
            raise self._unfollowed("media.eject", f"the drive still holds {drive.file}")

    async def _open(self, operation: str) -> None:
        """Take out what is in, by force where the guest has locked the tray: no person could do less."""
        drive = await self._drive(operation)
        if drive.file is not None or not drive.tray_open:
            await self._monitor.execute("eject", {**drive.address, "force": True})

    async def _drive(self, operation: str) -> Drive:
        found = [drive for drive in await drives(self._monitor) if drive.removable]
        if not found:
            raise self._rejected(operation, "it has no CD drive", "no drive")
        return found[0]

    def _rejected(self, operation: str, problem: str, code: str) -> OperationRejectedError:
        machine = self._monitor.peer.machine
        return OperationRejectedError(problem, machine=machine, operation=operation, code=code)

    def _unfollowed(self, operation: str, problem: str) -> OperationTimeoutError:
        return OperationTimeoutError(
            f"{problem}; look at its drive", machine=self._monitor.peer.machine, operation=operation
        )


def _path(source: str) -> Path | None:
    """The file with links followed, None where there is no file."""
    path = Path(source).expanduser().resolve()
    return path if path.is_file() else None
