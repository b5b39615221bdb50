"""Options that several commands share, and opening a machine from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reflexarc.errors import ConfigError, JournalError

if TYPE_CHECKING:
    from reflexarc.inventory.entries import Entry

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
MAX_COMPLETED = 200

inventory_option: Callable[[F], F] = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    help="Inventory file (default: ./reflexarc.toml, else the user's own).",
)


class Seconds(click.FloatRange):
    """A time that somebody may wait: up to a day."""

    def __init__(self) -> None:
        super().__init__(0, 86_400)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        # What is no number is neither below nor above any.
        return self.fail(f"{value!r} is no time", param, ctx) if math.isnan(seconds) else seconds


def machines_begun(context: click.Context, parameter: click.Parameter | None, begun: str) -> list[str]:
    """The machines of the inventory that a word could become; none where it can't be read."""
    from reflexarc.inventory import entries

    try:
        machines = entries.load(context.params.get("inventory")).machines
    except ConfigError:
        return []
    return [name for name in machines if name.startswith(begun)]


def _runs_begun(context: click.Context, parameter: click.Parameter | None, begun: str) -> list[str]:
    """The ids of the newest runs that a word could become; none where the journal can't be read."""
    from reflexarc.inventory.places import places
    from reflexarc.runs.journal import Journal

    try:
        runs = Journal(places().journal, read_only=True).runs()
    except JournalError:
        return []
    return [run.run_id for run in runs if run.run_id.startswith(begun)][:MAX_COMPLETED]


def targets_begun(context: click.Context, parameter: click.Parameter | None, begun: str) -> list[str]:
    """The runs and machines that a word could become."""
    return [*_runs_begun(context, parameter, begun), *machines_begun(context, parameter, begun)]


machine_argument: Callable[[F], F] = click.argument("machine", shell_complete=machines_begun)
machines_argument: Callable[[F], F] = click.argument("machines", nargs=-1, shell_complete=machines_begun)
run_argument: Callable[[F], F] = click.argument("run_id", shell_complete=_runs_begun)
json_option: Callable[[F], F] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def entry_of(machine: str, inventory: Path | None) -> Entry:
    """The entry of a machine."""
    from reflexarc.inventory import entries

    return entries.load(inventory).entry(machine)


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    import asyncio

    return asyncio.run(coroutine)


def absolute(references: dict[str, str]) -> dict[str, str]:
    """Secret references whose files can be found from any folder."""
    return {
        name: f"file:{Path(where).expanduser().absolute()}"
        if kind == "file" and not where.startswith("~")
        else ref
        for name, ref in references.items()
        for kind, _, where in [ref.partition(":")]
    }


def _is_text(value: str) -> bool:
    """Tell whether an argument was UTF-8; the interpreter keeps other bytes as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Split NAME=VALUE options; raises a usage error where the = is missing."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name or not _is_text(value):
            raise click.UsageError(f"{option} takes NAME=VALUE, not {value!r}")
        found[name] = rest
    return found
