"""From an entry of the inventory to an open machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path

from reflexarc.drivers.qemu import launch as qemu_vm
from reflexarc.errors import ConfigError, ConnectError, JournalError, MachineError, RunError, SafetyError
from reflexarc.inventory import entries, sameness
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.lending import open_lent, qemu_config, refreshing, switched_off
from reflexarc.inventory.places import kept, own_phases, phase_folders, places
from reflexarc.machine.audit import AuditLog
from reflexarc.machine.capabilities import Capabilities
from reflexarc.machine.chords import Kept, KeysDown
from reflexarc.machine.guard import Audit, Guard
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.machine.routing import route
from reflexarc.playbook.events import Event, Thawed
from reflexarc.runs.authors import begun_by_agent, last_author
from reflexarc.runs.granting import GrantBook, MachineGrants
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.session import Session
from reflexarc.runs.teaching import is_agent
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher

_SESSION = "session "


def running_vm(entry: Entry) -> qemu_vm.Vm | None:
    """The VM of this machine that is running, None where none is or the machine is none of ours to start."""
    return qemu_vm.find(entry.name, places().machine(entry.place)) if launched(entry) else None


def launched(entry: Entry) -> bool:
    """Tell whether the machine is one that reflexarc launches, not one that it attaches to."""
    return "qemu" in entry.drivers and "attach" not in entry.settings["qemu"]


def owner(entry: Entry) -> str | None:
    """The run that the running VM was launched for, None where it was started by itself or for a session."""
    mark = _mark(entry)
    return None if mark is None or mark.startswith(_SESSION) else mark


def _mark(entry: Entry) -> str | None:
    """Whom the VM belongs to: a run's id, or the session of a process; None where it was started by itself."""
    with suppress(OSError):
        return _owner_file(entry).read_text() or None
    return None


def _owner_file(entry: Entry) -> Path:
    return places().machine(entry.place) / "owner"


def _own(entry: Entry, mark: str) -> None:
    file = _owner_file(entry)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(mark)
    except OSError as error:
        raise ConfigError(f"can't write the machine's folder: {error.strerror}", path=file) from error


def _is_left(entry: Entry, journal: Journal) -> bool:
    """Tell whether the VM's owner is gone: a process that was killed, or a run that has ended."""
    mark = _mark(entry)
    if mark is None:
        return False
    if mark.startswith(_SESSION):
        return not Path(f"/proc/{mark.removeprefix(_SESSION)}").exists()
    return all(run.run_id != mark for run in journal.runs(place=entry.place, open_only=True))


def start_vm(entry: Entry) -> qemu_vm.Vm:
    """Launch the machine's VM, switched off; it stays until `stop_vm`.

    Raises ConfigError for a machine that reflexarc doesn't launch.
    """
    if not launched(entry):
        raise _not_ours(entry, "start")
    vm = qemu_vm.launch(qemu_config(entry), machine=entry.name, state_dir=places().machine(entry.place))
    _owner_file(entry).unlink(missing_ok=True)
    return vm


def _not_ours(entry: Entry, act: str) -> ConfigError:
    why = "it is only attached to" if "qemu" in entry.drivers else "it is no virtual machine of reflexarc's"
    return ConfigError(f"{entry.name} is not reflexarc's to {act}: {why}; use `reflexarc power`")


def stop_vm(entry: Entry) -> bool:
    """End the machine's VM; tell whether there was one. What its console said goes, too, unless a run is held.

    Raises ConfigError for one that reflexarc only attaches to.
    """
    if "qemu" in entry.drivers and not launched(entry):
        raise _not_ours(entry, "stop")
    vm = running_vm(entry)
    if vm is not None:
        vm.stop(keep_console=_has_open_run(entry))
    _owner_file(entry).unlink(missing_ok=True)
    return vm is not None


def _has_open_run(entry: Entry) -> bool:
    """Tell whether a run on this machine has not ended; True, too, where the journal can't be read."""
    try:
        with closing(Journal(places().journal)) as journal:
            return bool(journal.runs(place=entry.place, open_only=True))
    except JournalError:
        return True


async def end_of_run(entry: Entry, run_id: str, *, by: str = "", dry_run: bool = False) -> None:
    """A run has ended: the VM that was launched for it ends with it; one that it froze while held goes on.

    by: who drove or ended it, where that was an agent. Where an agent's word ended what a person began, the VM ends
    only if that agent may switch it off, and goes on as one that was started by itself otherwise.
    """
    if owner(entry) == run_id:
        if await asyncio.to_thread(_may_end, entry, run_id, by, dry_run=dry_run):
            await asyncio.to_thread(stop_vm, entry)
            return
        _owner_file(entry).unlink(missing_ok=True)
    if not dry_run and (not launched(entry) or running_vm(entry) is not None):
        with suppress(RunError):
            await _let_go(entry, run_id)


def _may_end(entry: Entry, run_id: str, by: str, *, dry_run: bool) -> bool:
    """Tell whether the VM of a run may end with it, as the journal says who began and answered it."""
    events: Sequence[Event] = ()
    with suppress(RunError, JournalError), closing(Journal(places().journal, read_only=True)) as journal:
        events = journal.read(run_id).events
    last = last_author(events)
    by = last if is_agent(last) else by
    if not is_agent(by):
        return True
    audit = AuditLog(places().audit).write
    if begun_by_agent(events) and not dry_run:
        audit({"machine": entry.name, "operation": "power.off", "who": by, "allowed": True,
               "why": "launched for a run that an agent began", "run": run_id})  # fmt: skip
        return True
    grants = MachineGrants(GrantBook(places().grants), entry.place)
    via = by.partition(" ")[2]
    policy = partial(_policy_of_agents, entry)
    guard = Guard(
        entry.name,
        entry.policy,
        agent=True,
        via=via,
        dry_run=dry_run,
        audit=audit,
        grants=grants,
        policy_now=policy,
    )
    with suppress(SafetyError):
        guard.check("power.off", run=run_id)
        return True
    return False


async def _let_go(entry: Entry, run_id: str) -> None:
    journal = Journal(places().journal)
    try:
        ledger = Ledger.open(journal, run_id)
        if ledger.state.is_frozen:
            async with open_capabilities(entry) as lent:
                guard = Guard(entry.name, entry.policy, audit=AuditLog(places().audit).write)
                await Machine(entry.name, lent, guard).freeze.thaw()
            ledger.record(Thawed(time.monotonic()))
    finally:
        journal.close()


def host_paths(entry: Entry) -> HostPaths:
    """The files of this host that playbooks may name for a machine."""
    return HostPaths(entry.media, entry.exchange, kept(entry.source))


def inventory_note(run_id: str) -> Path:
    """The file in a run's folder that names the inventory its machine stands in."""
    return places().runs / run_id / "inventory"


def entry_of_run(run_id: str, machine: str, inventory: Path | None) -> Entry:
    """The machine of a run, in the inventory that it was started from.

    Raises ConfigError where another inventory is named or that one is gone: what was granted is bound to the machine.
    """
    own = inventory_of_run(run_id)
    if own is None:
        return entries.load(inventory).entry(machine)
    if inventory is not None and inventory.absolute() != own:
        raise ConfigError(f"run {run_id} belongs to the machine {machine} of {own}", path=inventory)
    if not own.exists():
        raise ConfigError(
            f"run {run_id} belongs to the machine {machine} of this inventory, which is gone; put it back, or end the "
            f"run with `reflexarc runs abort {run_id}`",
            path=own,
        )
    return entries.load(own).entry(machine)


def inventory_of_run(run_id: str) -> Path | None:
    """The inventory that a run was started from, None where its folder doesn't say."""
    with suppress(OSError):
        return Path(inventory_note(run_id).read_text())
    return None


def end_of_lost_run(machine: str, place: str, run_id: str) -> None:
    """A run whose inventory is gone has ended: the VM that was launched for it ends with it."""
    folder = places().machine(place)
    mark = folder / "owner"
    with suppress(OSError):
        vm = qemu_vm.find(machine, folder) if mark.read_text() == run_id else None
        if vm is not None:
            vm.stop(keep_console=False)
            mark.unlink(missing_ok=True)


def _policy_of_agents(entry: Entry) -> Policy:
    """What the inventory says by now; raises SafetyError where it says nothing of the machine any more."""
    try:
        return entries.load(entry.source).entry(entry.name).policy
    except ConfigError as error:
        raise SafetyError(
            f"{entry.name}: agents may do nothing, for what is allowed to them can't be read any more: {error}",
            rule="allow.agents",
            operation="inventory",
        ) from error


@asynccontextmanager
async def open_capabilities(entry: Entry) -> AsyncIterator[Capabilities]:
    """Open the drivers of a machine in their order and merge what they lend."""
    async with open_lent(entry) as lent:
        yield route(lent)


@asynccontextmanager
async def open_session(
    entry: Entry,
    *,
    grant: Sequence[str] = (),
    agent: bool = False,
    via: str = "",
    dry_run: bool = False,
    holder: str = "a session",
    launch: bool = True,
    audit: Audit | None = None,
) -> AsyncIterator[Session]:
    """Open a machine: launch its VM where it has none, connect, begin to watch.

    A VM that was launched for this ends with it, unless a run began that is held or interrupted: then it
    belongs to that run. grant: operations that a person authorises for direct calls. via: what an agent comes by, for
    the audit log. launch: whether a VM may be launched at all; where not, ConnectError says that there is none. audit:
    what appends to the audit log, where a line is to say more than the guard knows.
    """
    found = places()
    if not launch and launched(entry) and running_vm(entry) is None:
        raise ConnectError(
            f"its virtual machine is not running; start it with `reflexarc machines start {entry.name}`",
            machine=entry.name,
        )
    recognisers = load_recognisers(phase_folders())
    journal = Journal(found.journal)
    lock = MachineLock(found.machine(entry.place) / "lock", entry.name, holder)
    guard = Guard(
        machine=entry.name,
        policy=entry.policy,
        agent=agent,
        via=via,
        granted=tuple(grant),
        dry_run=dry_run,
        audit=audit or AuditLog(found.audit).write,
        policy_now=partial(_policy_of_agents, entry) if agent else None,
    )
    mark = f"{_SESSION}{os.getpid()}"
    # An agent that may launch a VM may not therefore end one that others left.
    is_free = running_vm(entry) is None or (not agent and _is_left(entry, journal))
    if launch and launched(entry) and is_free:
        _own(entry, mark)

    def at_begin(run_id: str) -> None:
        note = inventory_note(run_id)
        try:
            note.write_text(str(entry.source))
        except OSError as error:
            raise JournalError(f"can't write the run's folder: {error.strerror}", path=note) from error
        # A VM that was launched for a session goes over to the run; one that was started by itself doesn't.
        now = _mark(entry) or ""
        if now == mark or (not agent and now.startswith(_SESSION)):
            _own(entry, run_id)
        sameness.note(note.parent, running_vm(entry))

    def replaced(run_id: str) -> str | None:
        return sameness.replaced(found.runs / run_id, running_vm(entry))

    async def at_end(run_id: str) -> None:
        await end_of_run(entry, run_id, by=f"agent {via}" if agent else "", dry_run=dry_run)

    try:
        async with open_lent(entry) as lent:
            folder = found.machine(entry.place)
            machine = Machine(
                entry.name,
                route(lent),
                guard,
                layout=entry.keymap,
                keys_down=KeysDown(folder / "keys-down"),
                buttons_down=Kept(folder / "buttons-down"),
                escape=Kept(folder / "console-escape"),
                advice=switched_off(entry),
            )
            async with (
                Watcher(machine.sensed, Ladder(recognisers), entry.name) as watcher,
                refreshing(watcher, lent),
            ):
                session = Session(
                    machine,
                    watcher,
                    journal,
                    recognisers.phases,
                    found.runs,
                    lock,
                    at_end,
                    at_begin,
                    place=entry.place,
                    drivers=entry.drivers,
                    host=host_paths(entry),
                    phase_folder=own_phases(),
                    book=GrantBook(found.grants),
                    replaced=replaced,
                )
                try:
                    yield session
                finally:
                    with suppress(MachineError, RunError):
                        await machine.release_keys()
    finally:
        lock.release()
        journal.close()
        if _mark(entry) == mark:
            await asyncio.to_thread(stop_vm, entry)
