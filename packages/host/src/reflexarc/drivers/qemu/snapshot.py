"""Saved states of the machine: QEMU's internal snapshots, kept in its qcow2 disks.

A machine without such a disk keeps them in `vmstate.qcow2` in its state folder, made when first needed.
Source: QEMU, qapi/migration.json, snapshot-save; qapi/job.json.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from reflexarc.drivers.qemu.blocks import Drive, drives
from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.power import OFF, PAUSED, press_reset, status
from reflexarc.drivers.qemu.vsock.keeping import VsockKeeper
from reflexarc.errors import OperationRejectedError, OperationTimeoutError, PeerProtocolError
from reflexarc.machine.capabilities import SavedState

JOB_TIMEOUT = 600.0
_OWN_NODE = "reflexarc-vmstate"
_jobs = itertools.count()


@dataclass(frozen=True)
class _Store:
    """Where states go: `vmstate` holds memory and devices, `nodes` are all that take part, `raw` can't."""

    vmstate: str
    nodes: tuple[str, ...]
    raw: tuple[Drive, ...]


class QemuSnapshot:
    """The machine's saved states; implements `Snapshot`. `vsock` is unplugged while it saves or goes back."""

    def __init__(self, monitor: Monitor, vsock: VsockKeeper | None = None) -> None:
        self._monitor = monitor
        self._vsock = vsock

    async def save(self, name: str) -> None:
        """Save the machine; raises OperationRejectedError where it is off: there is no state to save then."""
        if await status(self._monitor) in OFF:
            raise self._rejected("snapshot.save", "it is off and has no state to save; switch it on", "off")
        store = await self._store()
        async with self._without_vsock("snapshot.save", may_reset=False):
            if await self._find(store, name):
                await self._job("snapshot-delete", "snapshot.save", name, store)
            await self._job("snapshot-save", "snapshot.save", name, store)
        if not await self._find(store, name):
            raise OperationTimeoutError(
                f"QEMU saved {name!r} and does not list it", machine=self._machine, operation="snapshot.save"
            )

    async def restore(self, name: str) -> None:
        before = await status(self._monitor)
        store = await self._store()
        state = await self._existing(store, name, "snapshot.restore")
        for drive in store.raw:
            self._check_unwritten(drive, state)
        async with self._without_vsock("snapshot.restore", may_reset=True):
            if await status(self._monitor) == "shutdown":
                # QEMU continues such a machine only after a reset.
                await press_reset(self._monitor, "snapshot.restore")
            await self._job("snapshot-load", "snapshot.restore", name, store)
        if before not in PAUSED:
            await self._monitor.execute("cont")

    async def saved(self) -> Sequence[SavedState]:
        return await self._states(await self._store())

    async def delete(self, name: str) -> None:
        store = await self._store()
        await self._existing(store, name, "snapshot.delete")
        await self._job("snapshot-delete", "snapshot.delete", name, store)

    def _without_vsock(self, operation: str, *, may_reset: bool) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._vsock is None else self._vsock.unplugged(operation, may_reset=may_reset)

    @property
    def _machine(self) -> str:
        return self._monitor.peer.machine

    async def _store(self) -> _Store:
        disks = [d for d in await drives(self._monitor) if not d.read_only and d.node and not d.flash]
        own = tuple(str(disk.node) for disk in disks if disk.kind == "qcow2")
        raw = tuple(disk for disk in disks if disk.kind != "qcow2")
        if not own:
            await self._open_own()
            own = (_OWN_NODE,)
        return _Store(own[0], own, raw)

    async def _open_own(self) -> None:
        """Open the file of a machine that has no qcow2 disk, made where it isn't there yet."""
        if _OWN_NODE in await self._nodes():
            return
        path = self._monitor.peer.folder / "vmstate.qcow2"
        file = {"driver": "file", "filename": str(path), "node-name": f"{_OWN_NODE}-file"}
        if not path.exists():
            await self._create({"driver": "file", "filename": str(path), "size": 0})
            await self._monitor.execute("blockdev-add", file)
            await self._create({"driver": "qcow2", "file": file["node-name"], "size": 1 << 20})
        else:
            await self._monitor.execute("blockdev-add", file)
        await self._monitor.execute(
            "blockdev-add", {"driver": "qcow2", "file": file["node-name"], "node-name": _OWN_NODE}
        )

    async def _create(self, options: Mapping[str, object]) -> None:
        await self._run("blockdev-create", "snapshot.save", {"options": options})

    async def _states(self, store: _Store) -> list[SavedState]:
        image = (await self._nodes()).get(store.vmstate, {}).get("image")
        listed = image.get("snapshots", []) if isinstance(image, dict) else []
        try:
            found = [SavedState(str(s["name"]), s["date-sec"] + s["date-nsec"] / 1e9) for s in listed]
        except (LookupError, TypeError) as error:
            raise PeerProtocolError(
                f"QEMU's list of saved states can't be understood: {error!r}",
                machine=self._machine,
                operation="query-named-block-nodes",
                raw=str(listed).encode(),
            ) from error
        return sorted(found, key=lambda state: state.taken)

    async def _nodes(self) -> dict[str, Mapping[str, object]]:
        answer = await self._monitor.execute("query-named-block-nodes", {"flat": True})
        nodes = answer if isinstance(answer, list) else []
        return {str(node.get("node-name")): node for node in nodes if isinstance(node, dict)}

    async def _find(self, store: _Store, name: str) -> SavedState | None:
        return next((state for state in await self._states(store) if state.name == name), None)

    async def _existing(self, store: _Store, name: str, operation: str) -> SavedState:
        state = await self._find(store, name)
        if state is None:
            names = ", ".join(state.name for state in await self._states(store))
            raise self._rejected(
                operation, f"there is no saved state {name!r}; there are: {names or 'none'}", "absent"
            )
        return state

    def _check_unwritten(self, drive: Drive, state: SavedState) -> None:
        """Refuse to put an old memory on a newer disk: the guest's file systems would be ruined."""
        try:
            unwritten = Path(drive.file or "").stat().st_mtime <= state.taken
        except OSError:
            unwritten = False
        if not unwritten:
            raise self._rejected(
                "snapshot.restore",
                f"its disk {drive.file} is {drive.kind}, which can't go back, and was written to since "
                f"{state.name!r} was saved; convert it (qemu-img convert -O qcow2) to be able to",
                "raw disk",
            )

    async def _job(self, command: str, operation: str, name: str, store: _Store) -> None:
        arguments: dict[str, object] = {"tag": name, "devices": list(store.nodes)}
        if command != "snapshot-delete":
            arguments["vmstate"] = store.vmstate
        await self._run(command, operation, arguments)

    async def _run(self, command: str, operation: str, arguments: Mapping[str, object]) -> None:
        """Run a job to its end; the machine and QEMU itself may stand still meanwhile."""
        job = f"reflexarc-{os.getpid()}-{next(_jobs)}"
        with self._monitor.watching("JOB_STATUS_CHANGE") as changed, self._monitor.patient(JOB_TIMEOUT):
            await self._monitor.execute(command, {"job-id": job, **arguments})
            error = await self._end_of(job, changed, operation)
            await self._monitor.execute("job-dismiss", {"id": job})
        if error:
            raise self._rejected(operation, f"QEMU can't do it: {error}", "failed", error)

    async def _end_of(self, job: str, changed: asyncio.Event, operation: str) -> str | None:
        try:
            async with asyncio.timeout(JOB_TIMEOUT):
                while True:
                    changed.clear()
                    told = await self._monitor.execute("query-jobs")
                    jobs = told if isinstance(told, list) else []
                    own: Mapping[str, object] = next((j for j in jobs if j.get("id") == job), {})
                    if own.get("status") == "concluded":
                        return str(own["error"]) if own.get("error") else None
                    await changed.wait()
        except TimeoutError as error:
            raise OperationTimeoutError(
                f"QEMU was not done within {JOB_TIMEOUT:.0f} s", machine=self._machine, operation=operation
            ) from error

    def _rejected(self, operation: str, problem: str, code: str, detail: str = "") -> OperationRejectedError:
        return OperationRejectedError(
            problem, machine=self._machine, operation=operation, code=code, detail=detail
        )
