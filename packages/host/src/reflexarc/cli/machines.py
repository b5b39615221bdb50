"""`reflexarc machines`: the inventory, and virtual machines started and stopped by hand."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from reflexarc.cli.options import entry_of, inventory_option, json_option, machine_argument
from reflexarc.cli.text import dump
from reflexarc.inventory import entries, opening


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
@click.option("--yes", is_flag=True, help="Stop it even while a run is held on it.")
def stop(machine: str, inventory: Path | None, yes: bool) -> None:
    """End a virtual machine at once, as if its plug were pulled. Names may be globbed."""
    for entry in _matching(machine, inventory):
        run = opening.owner(entry)
        if run and opening.running_vm(entry) and not yes:
            raise click.UsageError(
                f"{entry.name} belongs to run {run}; abort that with `reflexarc runs abort {run}`, or add --yes"
            )
        ended = opening.stop_vm(entry)
        click.echo(f"{entry.name}: {'stopped' if ended else 'was not running'}")


def _matching(pattern: str, inventory: Path | None) -> list[entries.Entry]:
    found = entries.load(inventory)
    named = [e for name, e in found.machines.items() if fnmatchcase(name, pattern)]
    return named or [found.entry(pattern)]
