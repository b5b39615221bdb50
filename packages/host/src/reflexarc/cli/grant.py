"""`reflexarc grant`: what a person at a terminal authorises in advance, for one held run or one call."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from reflexarc.cli.asking import shown_request, typed_code
from reflexarc.cli.options import entry_of, inventory_option, json_option, targets_begun
from reflexarc.cli.text import called, dump, is_terminal, one_line, person
from reflexarc.errors import ConfigError, RunError, SafetyError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.places import places
from reflexarc.machine.guarded import resolved
from reflexarc.machine.policy import OPERATIONS, covers
from reflexarc.playbook import grants
from reflexarc.playbook.state import RunState, Stage
from reflexarc.runs.granting import LONGEST, Grant, GrantBook
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import check_grant

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
# Operations that are bound to an argument, and what it is.
_BOUND = {
    "media.mount": "IMAGE",
    "boot.set_device": "DEVICE[,once]",
    "snapshot.restore": "NAME",
    "snapshot.delete": "NAME",
}


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,6})([smh])", str(value))
        seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
        if not 0 < seconds <= LONGEST:
            self.fail(f"{value!r} is no time up to 24h, such as 90s, 15m or 2h", param, ctx)
        return seconds


class _Grants(click.Group):
    """`list` and `revoke` are commands; anything else is what is granted to."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            args = ["give", *args]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        targets = [CompletionItem(target) for target in targets_begun(ctx, None, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *targets]


@click.group(cls=_Grants, subcommand_metavar="RUN|MACHINE OPS... | list | revoke ID")
def grant() -> None:
    """Authorise destructive operations in advance: for a run, or for one call to a machine.

    A run gets them with the next reply, for its steps as they stand now. A machine's serve --count direct calls
    of it; there an operation with an argument is written with it, such as media.mount=/images/a.iso.
    """


@grant.command()
@click.argument("target", metavar="RUN|MACHINE")
@click.argument("operations", metavar="OPS...", nargs=-1, required=True)
@click.option(
    "--expires", type=_Duration(), default=900.0, show_default="15m", help="For how long it can be used."
)
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Acts of each operation of a run; calls of a machine in all.",
)
@inventory_option
def give(
    target: str, operations: tuple[str, ...], expires: float, count: int, inventory: Path | None
) -> None:
    """Grant OPS (operations or classes) to RUN, an id or the beginning of one, or to MACHINE."""
    if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        raise SafetyError(
            "a grant needs a person at a terminal; there is none here",
            rule="no_terminal",
            operation=operations[0],
        )
    names = [name for words in operations for name in _split(words)]
    run = _run_of(target)
    book = GrantBook(places().grants)
    given = _for_run(book, run, names, expires, count) if run else _for_machine(
        book, entry_of(target, inventory), names, expires, count
    )  # fmt: skip
    click.echo(f"grant {given.id}: {', '.join(given.operations)}, until {_clock(given.expires)}")
    if run:
        click.echo(f"  {called()} runs reply {run.run_id} resume  # goes on with it")


def _split(words: str) -> list[str]:
    """Names between commas; a comma after a `=` belongs to the argument."""
    return [words] if "=" in words else [name for name in words.split(",") if name]


def _run_of(target: str) -> RunState | None:
    """The run that is meant, None where it is no run's id."""
    journal = Journal(places().journal, read_only=True)
    try:
        found = [run.run_id for run in journal.runs() if run.run_id.startswith(target)]
        if not found:
            return None
        state = Ledger.open(journal, journal.find(target)).state
    finally:
        journal.close()
    if state.stage is Stage.ENDED:
        raise RunError(f"run {state.run_id} has ended ({state.outcome})", run_id=state.run_id)
    return state


def _for_run(book: GrantBook, run: RunState, names: Sequence[str], seconds: float, count: int) -> Grant:
    check_grant(names)
    ahead = run.playbook.steps[run.index :]
    keys = grants.granted_keys(ahead, names, run.key_of, most=count)
    bound = [step for step in ahead if step.authorisation is not None and run.key_of(step) in keys]
    if not bound:
        raise RunError(
            f"run {run.run_id}: none of its steps from {run.step.name!r} on is {' or '.join(names)}",
            run_id=run.run_id,
        )
    click.echo(
        f"Run {run.run_id} of {one_line(run.playbook.name)} on {run.machine}, {sum(keys.values())} of:",
        err=True,
    )
    for request in grants.requests(bound, run.scope):
        allowed = covers(run.policy, request.operation)
        click.echo(shown_request(request, "" if allowed else "; the policy does not allow it"), err=True)
    _confirm(names)
    operations = tuple(sorted({str(step.authorisation) for step in bound}))
    return book.give(
        machine=run.machine, place=run.place, operations=operations, seconds=seconds, by=person(), run=run.run_id,
        keys=keys, count=count,
    )  # fmt: skip


def _for_machine(book: GrantBook, entry: Entry, names: Sequence[str], seconds: float, count: int) -> Grant:
    calls = dict(call for name in names for call in _calls(name))
    for operation in calls:
        entry.policy.check(operation, agent=False, machine=entry.name)
    click.echo(f"On {entry.name}, {count} direct call{'s' if count > 1 else ''} of:", err=True)
    for operation, argument in calls.items():
        click.echo(f"  {operation}{' ' + one_line(argument) if argument else ''}, UNVERIFIED", err=True)
    _confirm(names)
    return book.give(
        machine=entry.name, place=entry.place, operations=tuple(calls), seconds=seconds, by=person(), calls=calls,
        count=count,
    )  # fmt: skip


def _calls(name: str) -> list[tuple[str, str | None]]:
    """The destructive operations that a name stands for, each with the argument it is bound to."""
    operation, equals, argument = name.partition("=")
    check_grant([operation])
    found = [one for one, destructive in OPERATIONS.items() if destructive and covers([operation], one)]
    if operation == "step" or not found or found == ["step.destructive"]:
        raise ConfigError(f"{operation} is not destructive on a machine by itself; there is nothing to grant")
    for one in found:
        if bool(equals and argument) != (one in _BOUND):
            how = f"{one}={_BOUND[one]}" if one in _BOUND else one
            raise ConfigError(f"{name!r} is bound to no argument, or to one that there is not: write {how}")
    if operation == "media.mount":
        argument = resolved(argument)
    return [(one, argument or None) for one in found]


def _confirm(names: Sequence[str]) -> None:
    if not typed_code():
        raise SafetyError("that was not the code; nothing was granted", rule="wrong_code", operation=names[0])


@grant.command("list")
@json_option
def list_grants(as_json: bool) -> None:
    """List the grants that can still be used."""
    book = GrantBook(places().grants)
    found = book.open()
    if as_json:
        click.echo(dump([{**_row(one), "left": book.left(one)} for one in found]))
        return
    for one in found:
        left = book.left(one)
        whom = f"run {one.run}" if one.run else f"{left} call{'s' * (left > 1)} to {one.machine}"
        click.echo(
            f"{one.id}  {', '.join(_spelt(one))} for {whom}, until {_clock(one.expires)}, by {one_line(one.by)}"
        )


def _row(one: Grant) -> dict[str, object]:
    return {
        "id": one.id, "machine": one.machine, "run": one.run or None, "operations": list(one.operations),
        "arguments": {name: value for name, value in one.calls.items() if value is not None}, "count": one.count,
        "created": one.created, "expires": one.expires, "by": one.by,
    }  # fmt: skip


def _spelt(one: Grant) -> list[str]:
    bound = {name: f"={one_line(value)}" for name, value in one.calls.items() if value is not None}
    return [name + bound.get(name, "") for name in one.operations]


@grant.command()
@click.argument("grant_id", metavar="ID")
def revoke(grant_id: str) -> None:
    """Take back what is left of a grant. An id may be cut short."""
    book = GrantBook(places().grants)
    found = book.find(grant_id)
    if not book.use_up(found, f"revoked by {person()}"):
        raise RunError(f"grant {found.id} was used meanwhile", run_id=found.run)
    click.echo(f"grant {found.id}: revoked")


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
