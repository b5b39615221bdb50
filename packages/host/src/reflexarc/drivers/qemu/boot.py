"""What the machine starts from, by the boot indexes of its devices.

QEMU hands the indexes to the firmware, SeaBIOS and UEFI alike, at each reset; so a change counts from the next
one. What was changed is kept in `boot.json` beside the machine, for the programs that come after this one.
Source: QEMU, docs/system/bootindex; qapi/qom.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from reflexarc.drivers.qemu import private
from reflexarc.drivers.qemu.blocks import drives
from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.launch import BOOT_FILE
from reflexarc.drivers.qemu.power import OFF, press_reset, status
from reflexarc.errors import MachineError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.capabilities import BootDevice, BootSetting

_OPERATION = "boot.set_device"
_UNSET = -1
# SeaBIOS resets the machine again, within a moment, when it finds that it was there before.
QUIET = 3.0

Indexes = Mapping[str, int]


@dataclass(frozen=True)
class Override:
    """A setting in force; `now` are its indexes, `before` those that the machine came with.

    armed: when the machine was last reset since, or switched on then, in seconds since 1970; 0 as long as its
    firmware doesn't have it. after: what counts once it is used up.
    """

    device: str
    once: bool
    armed: float
    before: Indexes
    now: Indexes
    after: str


class QemuBoot:
    """The machine's boot order; implements `BootOverride`.

    A setting for once is undone by the programs that are connected when the machine starts with it.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._path = monitor.peer.folder / BOOT_FILE
        self._busy = asyncio.Lock()
        self._was_reset = asyncio.Event()
        self._went_on = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def setting(self) -> BootSetting:
        async with self._busy:
            override = await self._present()
        if override is None:
            return BootSetting()
        return BootSetting(BootDevice(override.device), override.once)

    async def set(self, device: BootDevice, *, once: bool) -> None:
        async with self._busy:
            await self._set(device, await self._present(), once=once)
            if await status(self._monitor) == "prelaunch":
                # Switching on is no reset: QEMU made the firmware's list when it started.
                await press_reset(self._monitor, _OPERATION)
                self._arm()

    def follow(self) -> None:
        """Begin to undo what was set for once, as soon as the machine has started with it."""
        self._task = asyncio.create_task(self._follow(), name=f"{self._machine}: boot")

    async def use_up(self) -> None:
        """The machine is about to start anew: what it started with for once counts no more."""
        await self._settle(quiet=0.0)

    async def close(self) -> None:
        """Stop following, with what is due done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._monitor.lost is None:
            with suppress(MachineError):
                await asyncio.sleep(await self._settle() or 0.0)
                await self._settle()

    @property
    def _machine(self) -> str:
        return self._monitor.peer.machine

    async def _follow(self) -> None:
        with (
            self._monitor.watching("RESET") as self._was_reset,
            self._monitor.watching("RESUME") as self._went_on,
            self._monitor.watching("RESET", "RESUME") as flag,
        ):
            while self._monitor.lost is None:
                flag.clear()
                left = await self._settle()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await flag.wait()

    async def _settle(self, quiet: float = QUIET) -> float | None:
        """Undo a setting for once that the machine has started with; return in how many seconds that is due."""
        async with self._busy:
            self._note_events()
            override = self._kept()
            if not (override and override.once and override.armed) or await status(self._monitor) in OFF:
                return None
            left = min(override.armed + quiet - time.time(), quiet)
            if left > 0:
                return left
            await self._set(BootDevice(override.after), override, once=False)
            return None

    def _note_events(self) -> None:
        override = self._kept()
        if self._was_reset.is_set() or (override and override.armed and self._went_on.is_set()):
            self._arm()
        self._was_reset.clear()
        self._went_on.clear()

    async def _set(self, device: BootDevice, present: Override | None, *, once: bool) -> None:
        kinds = await self._devices()
        before = present.before if present else await self._read(kinds)
        now = before if device is BootDevice.NONE else self._first(device, kinds, before)
        await self._write(now)
        if await self._read(now) != now:
            raise OperationTimeoutError(
                "QEMU took the boot order and has another", machine=self._machine, operation=_OPERATION
            )
        if device is BootDevice.NONE and not once:
            self._path.unlink(missing_ok=True)
            return
        lasting = BootDevice.NONE if present is None else (present.after if present.once else present.device)
        self._keep(Override(str(device), once, 0.0, before, now, str(lasting if once else device)))

    def _arm(self) -> None:
        override = self._kept()
        if override:
            self._keep(replace(override, armed=time.time()))

    async def _present(self) -> Override | None:
        """The setting in force; one that the devices don't have is of an earlier QEMU, and forgotten."""
        override = self._kept()
        if override is None:
            return None
        with suppress(OperationRejectedError):
            if await self._read(override.now) == override.now:
                return override
        self._path.unlink(missing_ok=True)
        return None

    def _first(self, device: BootDevice, kinds: Mapping[str, BootDevice], before: Indexes) -> Indexes:
        """The indexes with which the first device of the kind comes first, and the others as they were."""
        order = sorted(kinds, key=lambda path: (before[path] == _UNSET, before[path]))
        wanted = [path for path in order if kinds[path] is device]
        if not wanted:
            there = ", ".join(sorted(set(kinds.values()))) or "nothing"
            raise OperationRejectedError(
                f"it has no {device} to start from; it has {there}",
                machine=self._machine,
                operation=_OPERATION,
                code="absent",
            )
        following = [path for path in order if before[path] != _UNSET and path != wanted[0]]
        return dict.fromkeys(kinds, _UNSET) | {
            path: number for number, path in enumerate([wanted[0], *following])
        }

    async def _devices(self) -> Mapping[str, BootDevice]:
        """QOM path -> kind, of all devices that have a boot index."""
        found: dict[str, BootDevice] = {}
        for drive in await drives(self._monitor):
            if drive.device:
                path = drive.device if drive.device[0] == "/" else f"/machine/peripheral/{drive.device}"
                found[path] = BootDevice.CDROM if drive.removable else BootDevice.DISK
        for folder in ("/machine/peripheral", "/machine/peripheral-anon"):
            for child, sort in (await self._properties(folder)).items():
                path = f"{folder}/{child}"
                if sort.startswith("child<") and "netdev" in await self._properties(path):
                    found[path] = BootDevice.NETWORK
        return {path: kind for path, kind in found.items() if "bootindex" in await self._properties(path)}

    async def _properties(self, path: str) -> Mapping[str, str]:
        """Name -> type of what an object has."""
        answer = await self._monitor.execute("qom-list", {"path": path})
        return {str(p.get("name")): str(p.get("type")) for p in answer} if isinstance(answer, list) else {}

    async def _read(self, paths: Mapping[str, object]) -> dict[str, int]:
        indexes = {}
        for path in paths:
            value = await self._monitor.execute("qom-get", {"path": path, "property": "bootindex"})
            indexes[path] = value if isinstance(value, int) else _UNSET
        return indexes

    async def _write(self, indexes: Indexes) -> None:
        """Set the indexes, all unset first: QEMU refuses one that another device has."""
        for wanted in (dict.fromkeys(indexes, _UNSET), indexes):
            for path, index in wanted.items():
                await self._monitor.execute(
                    "qom-set", {"path": path, "property": "bootindex", "value": index}
                )
        self._was_reset.clear()

    def _kept(self) -> Override | None:
        try:
            return Override(**json.loads(self._path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def _keep(self, override: Override) -> None:
        draft = self._path.with_suffix(f".{os.getpid()}")
        private.write(draft, json.dumps(asdict(override)))
        draft.replace(self._path)
