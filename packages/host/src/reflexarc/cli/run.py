"""`reflexarc run`: a playbook on one or more machines."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import click

from reflexarc.cli.driving import drive
from reflexarc.cli.options import call, inventory_option, json_option, pairs
from reflexarc.cli.progress import view
from reflexarc.cli.report import check_targets, write_reports
from reflexarc.cli.text import dump
from reflexarc.errors import ReflexarcError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.machine.policy import covers
from reflexarc.playbook import grants
from reflexarc.playbook.model import Playbook
from reflexarc.runs.preflight import preflight
from reflexarc.runs.session import Session


@dataclass(frozen=True)
class Wish:
    """What the person asked for, the same for every machine. begun: the ids of the runs, as they begin."""

    playbook: Path
    variables: Mapping[str, str]
    secrets: Mapping[str, str]
    grant: tuple[str, ...]
    as_json: bool
    dry_run: bool
    interactive: bool
    begun: list[str] = field(default_factory=list)


@click.command("run")
@click.argument("playbook", type=click.Path(path_type=Path))
@click.option(
    "--machine", "-m", "machines", multiple=True, required=True, help="Machine or pattern; repeatable."
)
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; repeatable.")
@click.option(
    "--secret", "secrets", multiple=True, metavar="NAME=REF", help="A secret from env:VARIABLE or file:PATH."
)
@click.option(
    "--secret-file", "secret_files", multiple=True, metavar="NAME=PATH", help="A secret from a file."
)
@click.option(
    "--grant", multiple=True, metavar="OPS", help="Authorise operations or classes; commas or repeated."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a report of the run as one HTML page.",
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write the run as JUnit XML.")
@click.option("--dry-run", is_flag=True, help="Check everything, send nothing.")
@inventory_option
@json_option
def run_playbook(
    playbook: Path,
    machines: tuple[str, ...],
    variables: tuple[str, ...],
    secrets: tuple[str, ...],
    secret_files: tuple[str, ...],
    grant: tuple[str, ...],
    report: Path | None,
    junit: Path | None,
    dry_run: bool,
    inventory: Path | None,
    as_json: bool,
) -> int:
    """Run PLAYBOOK on machines.

    At a hold it waits for you on a terminal; elsewhere it exits 3 with the escalation on standard output.
    """
    files = {
        name: f"file:{Path(path).absolute()}" for name, path in pairs(secret_files, "--secret-file").items()
    }
    wish = Wish(
        playbook=playbook,
        variables=pairs(variables, "--var"),
        secrets={**pairs(secrets, "--secret"), **files},
        grant=tuple(name for names in grant for name in names.split(",") if name),
        as_json=as_json,
        dry_run=dry_run,
        interactive=sys.stdin.isatty() and sys.stdout.isatty() and not as_json,
    )
    chosen = _chosen(entries.load(inventory), machines)
    check_targets(report, junit)
    try:
        return call(_run(chosen[0], wish, label="") if len(chosen) == 1 else _run_all(chosen, wish))
    finally:
        write_reports(wish.begun, html=report, junit=junit)


def _chosen(inventory: entries.Inventory, patterns: tuple[str, ...]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for pattern in patterns:
        named = [name for name in inventory.machines if fnmatchcase(name, pattern)]
        for name in named or [inventory.entry(pattern).name]:
            found[name] = inventory.machines[name]
    return list(found.values())


async def _run_all(chosen: Sequence[Entry], wish: Wish) -> int:
    """One run a machine, at the same time; nobody is asked; the worst code counts."""

    async def one(entry: Entry) -> int:
        try:
            return await _run(entry, wish, label=entry.name, alone=False)
        except ReflexarcError as error:
            click.echo(f"{entry.name}: {error}", err=True)
            return 1

    codes = await asyncio.gather(*(one(entry) for entry in chosen))
    for entry, code in zip(chosen, codes, strict=True):
        click.echo(f"{entry.name}: exit code {code}", err=True)
    return max(codes)


async def _run(entry: Entry, wish: Wish, *, label: str, alone: bool = True) -> int:
    holder = f"a run of {wish.playbook.name}"
    async with open_session(entry, holder=holder, dry_run=wish.dry_run) as session:
        playbook = session.load(wish.playbook)
        if wish.dry_run:
            return await _dry_run(session, playbook, wish)
        interactive = wish.interactive and alone
        grant = wish.grant or (_asked_grant(playbook, wish.variables, entry.name) if interactive else ())
        shown = view(label=label)
        run = await session.begin(
            playbook,
            variables=wish.variables,
            secret_values=_asked_secrets(playbook, wish.secrets) if interactive else None,
            secret_references=wish.secrets,
            grant=grant,
            by=f"{getpass.getuser()} at the command line",
            listener=shown,
        )
        wish.begun.append(run.id)
        return await drive(run, shown, as_json=wish.as_json, interactive=interactive)


def _asked_grant(playbook: Playbook, variables: Mapping[str, object], machine: str) -> tuple[str, ...]:
    """Ask the person to authorise the destructive steps that the playbook asks for."""
    wanted = [r for r in grants.requests(playbook, variables) if covers(playbook.authorize, r.operation)]
    if not wanted:
        return ()
    click.echo(f"{playbook.name} wants to do on {machine}:", err=True)
    for request in wanted:
        mark = "  UNVERIFIED: nothing is checked before it fires" if request.unverified else ""
        arguments = f" ({request.arguments})" if request.arguments else ""
        click.echo(f"  {request.operation:<16} {request.step}{arguments}{mark}", err=True)
    if not click.confirm("Authorise this?", default=False, err=True):
        return ()
    return tuple(sorted({request.operation for request in wanted}))


def _asked_secrets(playbook: Playbook, given: Mapping[str, str]) -> dict[str, str]:
    missing = [v.name for v in playbook.variables.values() if v.secret and v.required and v.name not in given]
    return {name: click.prompt(name, hide_input=True, err=True) for name in missing}


async def _dry_run(session: Session, playbook: Playbook, wish: Wish) -> int:
    """Say what the run would do and what preflight finds; send nothing."""
    findings = await preflight(session.machine, playbook.needs)
    steps = [
        {
            "name": step.name,
            "action": step.action,
            "operation": step.operation,
            "needs_grant": step.authorisation,
            "granted": step.authorisation is None or covers(wish.grant, step.authorisation),
        }
        for step in playbook.steps
    ]
    if wish.as_json:
        checks = [
            {"check": f.check, "ok": f.ok, "critical": f.critical, "detail": f.detail} for f in findings
        ]
        click.echo(
            dump({"machine": session.name, "playbook": playbook.name, "preflight": checks, "steps": steps})
        )
    else:
        for finding in findings:
            click.echo(f"{'ok ' if finding.ok else 'BAD'} {finding.check}: {finding.detail}")
        for number, step in enumerate(steps, 1):
            gate = "" if step["granted"] else f"  needs --grant {step['needs_grant']}"
            click.echo(f"{number:>3}. {step['name']}: {step['action'] or 'wait'}{gate}")
    return 0 if all(f.ok or not f.critical for f in findings) else 1
