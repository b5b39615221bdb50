"""`reflexarc audit`: every guarded operation, let through or refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime

import click

from reflexarc.cli.options import json_option, machines_begun
from reflexarc.cli.text import dump, one_line
from reflexarc.inventory.places import places
from reflexarc.machine.audit import AuditLog

_SHOWN = ("at", "user", "machine", "operation", "who", "allowed", "why", "run", "step", "evidence", "age")


@click.command()
@click.option("--machine", shell_complete=machines_begun, help="Only operations on this machine.")
@click.option(
    "--limit", default=200, show_default=True, type=click.IntRange(1, 1_000_000), help="The newest so many."
)
@json_option
def audit(machine: str | None, limit: int, as_json: bool) -> None:
    """Show what was sent to machines and what was refused, oldest first; with --json one object a line."""
    lines = AuditLog(places().audit).read()
    chosen = deque((line for line in lines if machine in (None, line.get("machine"))), maxlen=limit)
    for line in chosen:
        click.echo(dump(line) if as_json else _spelt(line))


def _spelt(line: Mapping[str, object]) -> str:
    at = line.get("at")
    when = (
        datetime.fromtimestamp(at if isinstance(at, int | float) else 0)
        .astimezone()
        .strftime("%Y-%m-%d %H:%M:%S")
    )
    verdict = "" if line.get("allowed") else "REFUSED "
    details = [f"{key}={value}" for key, value in line.items() if key not in _SHOWN]
    evidence = f" on {line['evidence']}" if line.get("evidence") else ""
    return one_line(
        f"{when}  {line.get('machine')}  {verdict}{line.get('operation')} {' '.join(details)} "
        f"({line.get('user')}, {line.get('who')}; {line.get('why')}{evidence})"
    )
