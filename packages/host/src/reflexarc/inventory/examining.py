"""What can be told of a machine of the inventory without disturbing it, for `doctor`.

A machine that doesn't run is not launched, and nothing is sent to one that does.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress

from reflexarc.drivers.qemu.config import QemuConfig
from reflexarc.drivers.qemu.launch import Vm
from reflexarc.drivers.replay.config import ReplayConfig
from reflexarc.errors import ConfigError, JournalError, MachineBusyError, MachineError, SafetyError
from reflexarc.inventory.allow import SYSTEM_POLICY
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.host import of_launched
from reflexarc.inventory.opening import launched, open_capabilities, running_vm
from reflexarc.inventory.places import places
from reflexarc.machine.audit import AuditLog
from reflexarc.machine.guard import Guard
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.runs.preflight import Finding, Severity, examine

PATIENCE = 30.0


async def machine_findings(entry: Entry) -> list[Finding]:
    """Everything that is found about one machine."""
    findings = [*_settings(entry), _policy(entry), _lock(entry)]
    try:
        async with asyncio.timeout(PATIENCE):
            findings += await _looked_at(entry)
    except MachineBusyError as error:
        findings.append(
            Finding("reachable", Severity.WARNING, str(error), "end one of the programs that use it")
        )
    except ConfigError as error:
        findings.append(
            Finding("reachable", Severity.CRITICAL, str(error), "correct its entry in the inventory")
        )
    except SafetyError as error:
        fix = "allow people to observe it: in its entry, and in the host's policy where there is one"
        findings.append(Finding("policy", Severity.CRITICAL, str(error), fix))
    except MachineError as error:
        fix = "look whether the device is on, and whether its entry names the right one"
        findings.append(Finding("reachable", Severity.CRITICAL, str(error), fix))
    except TimeoutError:
        detail = f"it did not answer everything within {PATIENCE:.0f} s"
        findings.append(
            Finding("reachable", Severity.CRITICAL, detail, "look at the device, and at what uses it")
        )
    except OSError as error:
        detail = f"{error.filename or 'a file of its state'}: {error.strerror}"
        fix = f"make {places().state} yours and writable, or set REFLEXARC_STATE to another folder"
        findings.append(Finding("reachable", Severity.CRITICAL, detail, fix))
    return [*findings, Finding("agent", Severity.INFO, "not configured")]


async def _looked_at(entry: Entry) -> list[Finding]:
    vm = running_vm(entry)
    if launched(entry) and vm is None:
        fix = f"reflexarc machines start {entry.name}"
        return [Finding("reachable", Severity.INFO, "its virtual machine is not running", fix)]
    guard = Guard(entry.name, entry.policy, dry_run=True, audit=_audited)
    async with open_capabilities(entry) as lent:
        found = await examine(Machine(entry.name, lent, guard, layout=entry.keymap), entry.keymap)
    reached = "it answers" if vm is None else f"it answers (process {vm.pid})"
    return [Finding("reachable", Severity.OK, reached), *_running(vm), *found]


def _audited(line: Mapping[str, object]) -> None:
    """Have a look written down where that can be; that it can't is a finding of its own."""
    with suppress(JournalError):
        AuditLog(places().audit).write(line)


def _settings(entry: Entry) -> Iterator[Finding]:
    """Mistakes in the drivers' tables, and what they need of the host."""
    try:
        if "qemu" in entry.drivers:
            config = QemuConfig.parse(entry.settings["qemu"], machine=entry.name, folder=entry.source.parent)
            if launched(entry):
                yield from of_launched(config.binary, config.firmware, config.accel)
        if "replay" in entry.drivers:
            ReplayConfig.parse(entry.settings["replay"], machine=entry.name, folder=entry.source.parent)
    except ConfigError as error:
        yield Finding("settings", Severity.CRITICAL, str(error), f"correct it in {entry.source}")
    else:
        yield Finding("settings", Severity.OK, f"drivers {', '.join(entry.drivers)}, from {entry.source}")


def _policy(entry: Entry) -> Finding:
    people, agents = (", ".join(names) or "nothing" for names in (entry.policy.people, entry.policy.agents))
    where = f"allow in {entry.source}" if _has_allow(entry) else "the default: its entry has no allow"
    within = f", within {SYSTEM_POLICY}" if SYSTEM_POLICY.exists() else ""
    return Finding("policy", Severity.INFO, f"people: {people}; agents: {agents} ({where}{within})")


def _has_allow(entry: Entry) -> bool:
    try:
        machines = tomllib.loads(entry.source.read_text(encoding="utf-8")).get("machines")
    except (OSError, ValueError):
        return False
    table = machines.get(entry.name) if isinstance(machines, Mapping) else None
    return isinstance(table, Mapping) and "allow" in table


def _lock(entry: Entry) -> Finding:
    try:
        holder = MachineLock(places().machine(entry.place) / "lock", entry.name, "doctor").holder()
    except ConfigError as error:
        return Finding("lock", Severity.CRITICAL, str(error), "make that folder yours and writable")
    return Finding("lock", Severity.INFO, "nobody holds it" if holder is None else f"held by {holder}")


def _running(vm: Vm | None) -> Iterator[Finding]:
    """How a running VM runs, and how its screen is seen."""
    if vm is None:
        return
    kvm = vm.accel == "kvm"
    yield Finding("running", Severity.OK, "under KVM" if kvm else "emulated (TCG)")
    at = vm.arguments.index("-display") if "-display" in vm.arguments else -1
    if at >= 0 and vm.arguments[at + 1].startswith("dbus"):
        holder = MachineLock(vm.folder / "display.lock", vm.machine, "doctor").holder()
        way = (
            "a program is pushed to now, others poll"
            if holder is not None
            else "the next program is pushed to"
        )
        yield Finding("display", Severity.OK, f"D-Bus display; {way}")
    else:
        fix = "install QEMU's D-Bus display (see `host`), then stop and start it"
        yield Finding("display", Severity.WARNING, "polled: it was started without the D-Bus display", fix)
