"""`reflexarc machines`: the inventory, and virtual machines started and stopped by hand."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from reflexarc.cli.asking import authorised
from reflexarc.cli.control import yes_option
from reflexarc.cli.options import call, entry_of, inventory_option, json_option, machine_argument
from reflexarc.cli.text import dump
from reflexarc.inventory import entries, opening
from reflexarc.machine.capabilities import PowerState


@click.group()
def machines() -> None:
    """List machines, start and stop virtual ones."""


@machines.command("list")
@inventory_option
@json_option
def list_machines(inventory: Path | None, as_json: bool) -> None:
    """List the machines of the inventory, and which virtual ones run."""
    rows = [_row(entry) for entry in entries.load(inventory).machines.values()]
    if as_json:
        click.echo(dump(rows))
        return
    for row in rows:
        state = f"running (process {row['pid']})" if row["pid"] else "not running" if row["virtual"] else ""
        owner = f", belongs to run {row['run']}" if row["run"] else ""
        click.echo(f"{row['name']:<20} {row['driver_names']:<16} {state}{owner}".rstrip())


def _row(entry: entries.Entry) -> dict[str, object]:
    vm = opening.running_vm(entry)
    return {
        "name": entry.name,
        "drivers": list(entry.drivers),
        "driver_names": ", ".join(entry.drivers),
        "virtual": "qemu" in entry.drivers,
        "pid": vm.pid if vm else None,
        "accel": vm.accel if vm else None,
        "run": opening.owner(entry) if vm else None,
    }


@machines.command()
@machine_argument
@inventory_option
def start(machine: str, inventory: Path | None) -> None:
    """Start a virtual machine, switched off; it stays until `machines stop`."""
    vm = opening.start_vm(entry_of(machine, inventory))
    click.echo(f"{machine}: running, switched off (process {vm.pid}, {vm.accel})")


@machines.command()
@machine_argument
@inventory_option
@yes_option
def stop(machine: str, inventory: Path | None, yes: bool) -> None:
    """End a virtual machine. Names may be globbed.

    One that is on loses its power: that is power.off, and needs a person's word. Refused while a run advances.
    """
    for entry in _matching(machine, inventory):
        ended = call(_stop(entry, yes))
        click.echo(f"{entry.name}: {'stopped' if ended else 'was not running'}")


async def _stop(entry: entries.Entry, yes: bool) -> bool:
    if opening.running_vm(entry) is None:
        return opening.stop_vm(entry)
    grant = ["power.off"] if await _is_on(entry) and authorised(entry.name, "power.off", yes) else []
    async with opening.open_session(entry, grant=grant, holder="machines stop", launch=False) as session:
        session.lock.acquire()
        if await session.power.state() is not PowerState.OFF:
            session.machine.guard.check("power.off")
        return opening.stop_vm(entry)


async def _is_on(entry: entries.Entry) -> bool:
    async with opening.open_session(entry, launch=False) as session:
        return await session.power.state() is not PowerState.OFF


def _matching(pattern: str, inventory: Path | None) -> list[entries.Entry]:
    found = entries.load(inventory)
    named = [e for name, e in found.machines.items() if fnmatchcase(name, pattern)]
    return named or [found.entry(pattern)]
