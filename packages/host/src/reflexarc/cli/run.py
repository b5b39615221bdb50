"""`reflexarc run`: a playbook on one or more machines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from reflexarc.cli.asking import shown_request
from reflexarc.cli.driving import drive
from reflexarc.cli.main import code_of
from reflexarc.cli.options import absolute, call, inventory_option, json_option, machines_begun, pairs
from reflexarc.cli.progress import view
from reflexarc.cli.report import check_targets, copy_videos, video_target, write_reports
from reflexarc.cli.text import called, dump, is_terminal, one_line, pasteable, person, printable
from reflexarc.errors import ConnectError, ReflexarcError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import host_paths, open_session
from reflexarc.inventory.places import phase_folders
from reflexarc.machine.hostpaths import settled
from reflexarc.machine.policy import covers
from reflexarc.playbook import grants
from reflexarc.playbook.loader import load_file
from reflexarc.playbook.model import Playbook
from reflexarc.runs.hostfiles import file_findings
from reflexarc.runs.preflight import Finding, Severity, preflight
from reflexarc.runs.replies import check_grant, check_variables
from reflexarc.sensing.recognise import load_recognisers


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
    video: bool = False
    start_at: str = "0"
    max_escalations: int = 20
    secret_values: Mapping[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)


@click.command("run")
@click.argument("playbook", type=click.Path(path_type=Path))
@click.option(
    "--machine",
    "-m",
    "machines",
    multiple=True,
    required=True,
    help="Machine or pattern; repeatable.",
    shell_complete=machines_begun,
)
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; repeatable.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME=REF",
    help="A secret from env:VARIABLE, file:PATH or keyring:NAME.",
)
@click.option(
    "--secret-file", "secret_files", multiple=True, metavar="NAME=PATH", help="A secret from a file."
)
@click.option(
    "--grant", multiple=True, metavar="OPS", help="Authorise operations or classes; commas or repeated."
)
@click.option(
    "--start-at", default="0", metavar="STEP", help="Begin with this step: its name or index from 0."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a report of the run as one HTML page.",
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write the run as JUnit XML.")
@click.option(
    "--video",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Record the screen into the run's folder, and into FILE, an animated WebP picture, too.",
)
@click.option(
    "--max-escalations",
    default=20,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="Fail after so many.",
)
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
    start_at: str,
    report: Path | None,
    junit: Path | None,
    video: str | None,
    max_escalations: int,
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
        secrets={**absolute(pairs(secrets, "--secret")), **files},
        grant=tuple(name for names in grant for name in names.split(",") if name),
        as_json=as_json,
        dry_run=dry_run,
        max_escalations=max_escalations,
        interactive=is_terminal(sys.stdin) and is_terminal(sys.stdout) and not as_json,
        video=video is not None,
        start_at=start_at,
    )
    chosen = entries.load(inventory).matching(machines)
    loaded = load_file(playbook, load_recognisers(phase_folders()).phases)
    if dry_run:
        return max(call(_dry_run(entry, loaded, wish)) for entry in chosen)
    copy = video_target(video)
    check_targets(report, junit, copy)
    try:
        if len(chosen) == 1:
            return call(_run(chosen[0], loaded, _asked(loaded, wish, chosen[0]), label=""))
        return call(_run_all(chosen, loaded, replace(wish, interactive=False)))
    except KeyboardInterrupt:
        for run_id in wish.begun:
            click.echo(
                f"run {run_id}: interrupted; `{called()} runs resume {run_id}` goes on with it, "
                f"`{called()} runs abort {run_id}` ends it",
                err=True,
            )
        raise
    finally:
        copy_videos(wish.begun, copy)
        write_reports(wish.begun, html=report, junit=junit)


async def _run_all(chosen: Sequence[Entry], playbook: Playbook, wish: Wish) -> int:
    """One run a machine, at the same time; nobody is asked; the worst code counts."""

    async def one(entry: Entry) -> int:
        try:
            return await _run(entry, playbook, wish, label=entry.name)
        except ReflexarcError as error:
            click.echo(f"{entry.name}: {pasteable(printable(str(error)))}", err=True)
            return code_of(error)

    codes = await asyncio.gather(*(one(entry) for entry in chosen))
    for entry, code in zip(chosen, codes, strict=True):
        click.echo(f"{entry.name}: exit code {code}", err=True)
    return max(codes)


def _asked(playbook: Playbook, wish: Wish, entry: Entry) -> Wish:
    """The wish, with what a person at the terminal added: a grant, and secrets that are missing."""
    if not wish.interactive:
        return wish
    missing = [
        v.name for v in playbook.variables.values() if v.secret and v.required and v.name not in wish.secrets
    ]
    values = {name: click.prompt(name, hide_input=True, err=True) for name in missing}
    grant = wish.grant or _asked_grant(playbook, wish, entry)
    return replace(wish, grant=grant, secret_values=values)


async def _run(entry: Entry, playbook: Playbook, wish: Wish, *, label: str) -> int:
    async with open_session(entry, holder=f"a run of {wish.playbook.name}") as session:
        shown = view(label=label)
        run = await session.begin(
            playbook,
            variables=wish.variables,
            secret_values=wish.secret_values,
            secret_references=wish.secrets,
            grant=wish.grant,
            start_at=wish.start_at,
            by=person(),
            max_escalations=wish.max_escalations,
            listener=shown,
            video=wish.video,
        )
        wish.begun.append(run.id)
        return await drive(run, shown, as_json=wish.as_json, interactive=wish.interactive)


def _asked_grant(playbook: Playbook, wish: Wish, entry: Entry) -> tuple[str, ...]:
    """Show the person every destructive step, and ask once for those that can be authorised."""
    files = playbook.host_variables
    given = {name: settled(value) if name in files else value for name, value in wish.variables.items()}
    ahead = playbook.ahead(playbook.start_index(wish.start_at))
    found = grants.requests(ahead, {**playbook.defaults, **given})
    wanted = [r for r in found if _why_not(r, playbook, entry) is None]
    if not wanted:
        return ()
    click.echo(f"{one_line(playbook.name)} wants to do on {entry.name}:", err=True)
    for request in found:
        why_not = _why_not(request, playbook, entry)
        click.echo(
            shown_request(request, f"; it will be asked about: {why_not}" if why_not else ""), err=True
        )
    if not click.confirm("Authorise this?", default=False, err=True):
        return ()
    return tuple(sorted({request.operation for request in wanted}))


def _why_not(request: grants.Request, playbook: Playbook, entry: Entry) -> str | None:
    if not covers(playbook.authorize, request.operation):
        return "the playbook's authorize.ops does not have it"
    return None if covers(entry.policy.people, request.operation) else "the policy does not allow it"


async def _dry_run(entry: Entry, playbook: Playbook, wish: Wish) -> int:
    """Check everything that can be checked, say what the run would do, send nothing and start no VM."""
    check_grant(wish.grant)
    check_variables(playbook, {*wish.variables, *wish.secrets})
    start_at = playbook.start_index(wish.start_at)
    files = file_findings(playbook, wish.variables, host_paths(entry), start_at)
    try:
        async with open_session(entry, holder="a dry run", dry_run=True, launch=False) as session:
            findings = await preflight(session.machine, playbook.needs_from(start_at))
    except ConnectError as error:
        findings = [Finding("machine", Severity.INFO, str(error))]
    findings += files
    steps = [
        {
            "name": step.name,
            "action": step.action,
            "operation": step.operation,
            "needs_grant": step.authorisation,
            "granted": step.authorisation is None or covers(wish.grant, step.authorisation),
        }
        for step in playbook.steps[start_at:]
    ]
    if wish.as_json:
        checks = [finding.as_dict() for finding in findings]
        click.echo(
            dump({"machine": entry.name, "playbook": playbook.name, "preflight": checks, "steps": steps})
        )
    else:
        for finding in findings:
            click.echo(f"{'ok ' if finding.ok else 'BAD'} {finding.check}: {one_line(finding.detail)}")
        for number, step in enumerate(steps, start_at + 1):
            gate = "" if step["granted"] else f"  needs --grant {step['needs_grant']}"
            click.echo(f"{number:>3}. {one_line(str(step['name']))}: {step['action'] or 'wait'}{gate}")
    return 0 if all(f.ok or not f.critical for f in findings) else 1
