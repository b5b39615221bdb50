"""`reflexarc doctor`: what is wrong with the host and the machines, and how to put it right."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from reflexarc.cli.main import EXIT_FAILED
from reflexarc.cli.options import call, inventory_option, json_option, machines_argument
from reflexarc.cli.text import dump, one_line, pasteable
from reflexarc.errors import ConfigError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.examining import machine_findings
from reflexarc.inventory.host import host_findings
from reflexarc.inventory.keeping import state_findings
from reflexarc.inventory.opening import launched
from reflexarc.inventory.places import places
from reflexarc.runs.preflight import Finding, Severity
from reflexarc.wording import counted


@click.command()
@machines_argument
@inventory_option
@json_option
def doctor(machines: tuple[str, ...], inventory: Path | None, as_json: bool) -> int:
    """Look at MACHINES and where state is kept, or at the host and the whole inventory.

    Nothing is started, changed or sent; nothing has to be written for it.

    Exits 1 where something is critical: nothing destructive may be sent then.
    """
    found: dict[str, list[Finding]] = {}
    if machines:
        chosen = entries.load(inventory).matching(machines)
        found = {"": list(state_findings(places()))}
    else:
        chosen, found = _all(inventory)
    found |= call(_look(chosen))
    if as_json:
        host = found.pop("", [])
        told = {name: [finding.as_dict() for finding in findings] for name, findings in found.items()}
        click.echo(dump({"host": [finding.as_dict() for finding in host], "machines": told}))
        findings = [*host, *(finding for several in found.values() for finding in several)]
    else:
        _show(found)
        findings = [finding for several in found.values() for finding in several]
    return EXIT_FAILED if any(finding.critical for finding in findings) else 0


def _all(inventory: Path | None) -> tuple[list[Entry], dict[str, list[Finding]]]:
    """The machines of the inventory, and what is found of the host and of the inventory itself."""
    try:
        loaded = entries.load(inventory)
    except ConfigError as error:
        fix = "correct it there" if error.path is not None else "reflexarc init"
        severity = Severity.CRITICAL if error.path is not None else Severity.WARNING
        return [], {"": [Finding("inventory", severity, str(error), fix), *host_findings(needs_qemu=False)]}
    chosen = list(loaded.machines.values())
    listed = Finding("inventory", Severity.OK, f"{counted(len(chosen), 'machine')} in {loaded.path}")
    return chosen, {"": [listed, *host_findings(needs_qemu=any(map(launched, chosen)))]}


async def _look(chosen: Sequence[Entry]) -> dict[str, list[Finding]]:
    found = await asyncio.gather(*(machine_findings(entry) for entry in chosen))
    return {entry.name: findings for entry, findings in zip(chosen, found, strict=True)}


def _show(found: Mapping[str, Sequence[Finding]]) -> None:
    for name, findings in found.items():
        click.echo(name or "host")
        for finding in findings:
            click.echo(f"  {finding.severity:<9} {finding.check:<13} {one_line(finding.detail)}")
            if finding.fix and finding.severity is not Severity.OK:
                click.echo(f"  {'':<9} {'':<13} fix: {pasteable(one_line(finding.fix))}")
