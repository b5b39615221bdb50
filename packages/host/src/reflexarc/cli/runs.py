"""`reflexarc runs`: what the journal knows, and answers to runs that are held.

Looking at the journal loads no driver and no senses; what needs them imports them when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflexarc.cli.options import call, inventory_option, json_option, machines_begun, pairs, run_argument
from reflexarc.cli.text import dump, is_terminal, one_line, person
from reflexarc.errors import MachineBusyError, interrupting
from reflexarc.inventory.places import places
from reflexarc.playbook.words import KINDS, Reason, Stage
from reflexarc.runs.journal import Journal, Summary
from reflexarc.runs.ownership import is_driven, standing

if TYPE_CHECKING:
    from reflexarc.runs.ledger import Ledger


_ELSEWHERE = {"report": "report", "stats": "show_stats"}


class _Runs(click.Group):
    """Its commands, and those of `cli/report.py`, which is loaded when one of them is called or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *_ELSEWHERE))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE:
            from reflexarc.cli import report

            command: click.Command = getattr(report, _ELSEWHERE[cmd_name])
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Runs)
def runs() -> None:
    """List, show, report, answer, resume and abort runs."""


@runs.command("list")
@click.option("--machine", shell_complete=machines_begun, help="Only runs of this machine.")
@click.option("--held", is_flag=True, help="Only runs that are held.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000_000))
@json_option
def list_runs(machine: str | None, held: bool, limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    found = _journal(read_only=True).runs(machine=machine, stage=Stage.HELD if held else None)[:limit]
    rows = [{**_row(run), "run_id": run.run_id} for run in found]
    if as_json:
        click.echo(dump(rows))
        return
    for row in rows:
        when = datetime.fromtimestamp(float(str(row["created"]))).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        click.echo(
            f"{row['run_id']}  {when}  {row['machine']:<12} {row['outcome']:<11} "
            + one_line(
                f"{row['playbook']}  {row['step']}: {row['reason']}"
                if row["reason"]
                else str(row["playbook"])
            )
        )


def _row(run: Summary) -> dict[str, object]:
    return {
        "machine": run.machine, "playbook": run.playbook, "outcome": standing(run, places().runs), "step": run.step,
        "reason": run.reason, "created": run.created, "updated": run.updated,
    }  # fmt: skip


@runs.command()
@run_argument
@json_option
def show(run_id: str, as_json: bool) -> None:
    """Show one run: outcome, telemetry, and the escalation where it is held. An id may be cut short."""
    from reflexarc.cli.ending import show_escalation, show_outcome, show_steps
    from reflexarc.runs.artifacts import kept
    from reflexarc.runs.describe import describe_run, outcome_name
    from reflexarc.runs.ledger import Ledger

    journal = _journal(read_only=True)
    run_id = journal.find(run_id)
    ledger, record = Ledger.open(journal, run_id), journal.read(run_id)
    owned = is_driven(places().runs, run_id)
    files = kept(places().runs / run_id)
    described = describe_run(ledger.state, record, owned=owned)
    if as_json:
        click.echo(dump({**described, "files": {what: str(path) for what, path in files.items()}}))
        return
    held = ledger.state.escalation
    if outcome_name(ledger.state, owned=owned) == "held" and held is not None:
        show_escalation(ledger.state, held)
        if held.frame is not None:
            click.echo(f"  frame: {places().runs / run_id / held.frame.ref}")
    show_outcome(described)
    show_steps(described)
    for what, path in files.items():
        click.echo(f"  {what}: {path}")
    if record.damage:
        click.echo(f"  the end of its journal is damaged: {record.damage}")


@runs.command()
@run_argument
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("file", required=False)
@click.option("--escalation", type=int, help="The escalation that is meant; a stale one is refused.")
@click.option("--resume-at", help="Step name or index at which an amended playbook goes on.")
@click.option("--grant", multiple=True, metavar="OPS", help="Authorise operations that the reply adds.")
@click.option("--reason", default="", help="Why the run is aborted.")
@click.option("--phase", default="", help="The phase that is taught.")
@click.option("--text", default="", metavar="REGEX", help="Teach: what the screen of that phase says.")
@click.option(
    "--needle", type=click.Path(path_type=Path), help="Teach: a PNG picture on the screen of that phase."
)
@click.option(
    "--element",
    "told",
    multiple=True,
    metavar="KEY=TEXT",
    help="Teach: an element of that phase, by role, name, value or text.",
)
@click.option("--secret", "secrets", multiple=True, metavar="NAME=REF", help="Secrets of the run, again.")
@inventory_option
@json_option
def reply(
    run_id: str,
    kind: str,
    file: str | None,
    escalation: int | None,
    resume_at: str | None,
    grant: tuple[str, ...],
    reason: str,
    phase: str,
    text: str,
    needle: Path | None,
    told: tuple[str, ...],
    secrets: tuple[str, ...],
    inventory: Path | None,
    as_json: bool,
) -> int:
    """Answer a held run; where no process drives it, go on with it here. FILE may be - for standard input.

    Exits as `run` does, with 0 once an abort, or a reply to a run that another process drives, was taken.
    """
    from reflexarc.cli.driving import make_reply
    from reflexarc.inventory.replying import ending, give
    from reflexarc.runs.ledger import Ledger, require_held
    from reflexarc.runs.replies import record_reply

    journal = _journal()
    run_id = journal.find(run_id)
    operations = tuple(name for names in grant for name in names.split(",") if name)
    answer = make_reply(
        kind,
        file,
        resume_at=resume_at,
        grant=operations,
        reason=reason,
        phase=phase,
        text=text,
        needle=needle,
        element=dict(pairs(told, "--element")),
    )
    ledger = Ledger.open(journal, run_id)
    asked = require_held(ledger.state, escalation)

    def answered(ledger: Ledger) -> None:
        from reflexarc.runs.granting import GrantBook

        held = ledger.state.escalation
        if held is not None and held.id != asked and held.reason is Reason.CONNECTION_LOST:
            click.echo(f"run {run_id}: the reply was not given: it asks anew", err=True)
            return
        known = ledger.state.warnings
        book = GrantBook(places().grants)
        record_reply(ledger, answer, escalation_id=asked, by=person(), book=book)
        click.echo(f"run {run_id}: answered with {kind}", err=True)
        for warning in ledger.state.warnings[len(known) :]:
            click.echo(f"  warning: {one_line(warning)}", err=True)

    at_end = ending(journal.summary(run_id), inventory) if kind == "abort" else None
    left = call(give(ledger, answered, at_end))
    if left is None:
        return 0
    with interrupting(run_id):
        return call(_go_on(ledger, pairs(secrets, "--secret"), inventory, as_json=as_json, record=left))


@runs.command()
@run_argument
@click.option("--secret", "secrets", multiple=True, metavar="NAME=REF", help="Secrets of the run, again.")
@inventory_option
@json_option
def resume(run_id: str, secrets: tuple[str, ...], inventory: Path | None, as_json: bool) -> int:
    """Go on with a run that was interrupted; what it was about to do is looked at, never done twice."""
    from reflexarc.cli.ending import exit_code
    from reflexarc.inventory.replying import given_already
    from reflexarc.runs.ledger import Ledger

    journal = _journal()
    run_id = journal.find(run_id)
    ledger = Ledger.open(journal, run_id)
    if ledger.state.stage is Stage.ENDED:
        click.echo(f"run {run_id} has ended ({ledger.state.outcome})", err=True)
        return exit_code(ledger.state)
    if is_driven(places().runs, run_id):
        raise MachineBusyError(f"run {run_id} is driven by another process", machine=ledger.state.machine)
    with interrupting(run_id):
        return call(
            _go_on(ledger, pairs(secrets, "--secret"), inventory, as_json=as_json, record=given_already)
        )


@runs.command()
@run_argument
@click.option("--reason", default="aborted by a person", show_default=True)
@inventory_option
def abort(run_id: str, reason: str, inventory: Path | None) -> int:
    """End a run that is held or interrupted, and the VM that was launched for it."""
    from reflexarc.inventory.replying import ending
    from reflexarc.runs.run import abort as abort_run

    journal = _journal()
    run_id = journal.find(run_id)
    at_end = ending(journal.summary(run_id), inventory)
    call(abort_run(journal, places().runs, run_id, reason, by=person(), at_end=at_end))
    click.echo(f"run {run_id}: aborted")
    return 0


async def _go_on(
    ledger: Ledger,
    secrets: dict[str, str],
    inventory: Path | None,
    *,
    as_json: bool,
    record: Callable[[Ledger], None],
) -> int:
    """Open the machine, take the run up, journal what is left of an answer, and drive it on."""
    from reflexarc.cli.driving import drive
    from reflexarc.cli.progress import view
    from reflexarc.inventory.opening import entry_of_run, open_session
    from reflexarc.inventory.replying import taken_up
    from reflexarc.runs.secrets import IN_MEMORY, resolve

    values = {name: resolve(name, reference) for name, reference in secrets.items()}
    interactive = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not as_json
    for name, reference in ledger.state.secrets.items() if interactive else ():
        if reference == IN_MEMORY and name not in values:
            values[name] = click.prompt(name, hide_input=True, err=True)
    entry = entry_of_run(ledger.state.run_id, ledger.state.machine, inventory)
    async with open_session(entry, holder=f"run {ledger.state.run_id}") as session:
        shown = view()
        run = taken_up(session, ledger.state.run_id, record, secret_values=values, listener=shown)
        return await drive(run, shown, as_json=as_json, interactive=interactive)


def _journal(*, read_only: bool = False) -> Journal:
    return Journal(places().journal, read_only=read_only)
