"""What can be told of a machine of the inventory without disturbing it, for `doctor`.

A machine that doesn't run is not launched, and nothing is sent to one that does.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from reflexarc.drivers.agent.driver import AgentCapabilities
from reflexarc.drivers.agent.errors import said
from reflexarc.drivers.qemu.launch import Vm
from reflexarc.errors import ConfigError, JournalError, MachineBusyError, MachineError, SafetyError
from reflexarc.inventory.allow import SYSTEM_POLICY
from reflexarc.inventory.answering import agent_config
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.host import of_launched
from reflexarc.inventory.lending import open_lent, qemu_config, replay_config, ssh_config
from reflexarc.inventory.opening import launched, running_vm
from reflexarc.inventory.places import places
from reflexarc.machine.audit import AuditLog
from reflexarc.machine.capabilities import Command, Exited
from reflexarc.machine.guard import Guard
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.reach import Lent
from reflexarc.machine.routing import route
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
    if all(finding.check != "agent" for finding in findings):
        findings.append(Finding("agent", Severity.INFO, _unasked(entry)))
    return findings


async def _looked_at(entry: Entry) -> list[Finding]:
    vm = running_vm(entry)
    if launched(entry) and vm is None:
        fix = f"reflexarc machines start {entry.name}"
        return [Finding("reachable", Severity.INFO, "its virtual machine is not running", fix)]
    guard = Guard(entry.name, entry.policy, dry_run=True, audit=_audited)
    async with open_lent(entry) as lent:
        found = await examine(Machine(entry.name, route(lent), guard, layout=entry.keymap), entry.keymap)
        found += [*await _agent(lent), *await _ssh(lent)]
    reached = "it answers" if vm is None else f"it answers (process {vm.pid})"
    return [Finding("reachable", Severity.OK, reached), *_running(vm), *found]


def _audited(line: Mapping[str, object]) -> None:
    """Have a look written down where that can be; that it can't is a finding of its own."""
    with suppress(JournalError):
        AuditLog(places().audit).write(line)


async def _agent(lent: Sequence[Lent]) -> list[Finding]:
    """Whether the agent inside the guest answers, what it offers, and what keeps that from working."""
    agent = next((one.capabilities for one in lent if isinstance(one.capabilities, AgentCapabilities)), None)
    if agent is None:
        return []
    try:
        known = await agent.agent.look()
    except MachineError as error:
        fix = "start it in the guest, or correct the agent's table in the machine's entry"
        return [Finding("agent", Severity.WARNING, said(str(error)), fix)]
    version = f"agent {said(known.agent)}, " if known.agent else ""
    offers = ", ".join(map(said, known.features)) or "nothing"
    where = agent.agent.transport.name
    findings = [
        Finding("agent", Severity.OK, f"{version}version {known.version}, at {where}; it offers {offers}")
    ]
    for feature, readiness in known.readiness.items():
        if not readiness.ready:
            detail = f"{said(feature)} doesn't work now: {said(readiness.reason or 'no reason is told')}"
            findings.append(Finding("agent", Severity.WARNING, detail, said(readiness.grant or "")))
    return findings


async def _ssh(lent: Sequence[Lent]) -> list[Finding]:
    """Whether a command can be run over SSH."""
    shell = next((one.capabilities.shell for one in lent if one.driver == "ssh"), None)
    if shell is None:
        return []
    status = None
    try:
        async for piece in shell.run(Command(argv=("true",), timeout=PATIENCE / 2)):
            status = piece.status if isinstance(piece, Exited) else status
    except MachineError as error:
        fix = "put right what it says, or correct the ssh table in the machine's entry"
        return [Finding("ssh", Severity.WARNING, str(error), fix)]
    if status != 0:
        return [Finding("ssh", Severity.WARNING, "it answers, and can't run `true`")]
    return [Finding("ssh", Severity.OK, "it runs commands")]


def _unasked(entry: Entry) -> str:
    """Why the agent was not asked."""
    if "agent" not in entry.drivers:
        return "not configured"
    if entry.settings["agent"].get("enabled") is not True:
        return f"switched off; enabled = true in [machines.{entry.name}.agent] switches it on"
    return "not looked at: the machine isn't"


def _settings(entry: Entry) -> Iterator[Finding]:
    """Mistakes in the drivers' tables, and what they need of the host."""
    try:
        if "qemu" in entry.drivers:
            config = qemu_config(entry)
            if launched(entry):
                yield from of_launched(config.binary, config.firmware, config.accel)
        if "replay" in entry.drivers:
            replay_config(entry)
        if "agent" in entry.drivers:
            agent_config(entry)
        if "ssh" in entry.drivers:
            ssh_config(entry)
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
