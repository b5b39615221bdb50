"""`reflexarc watch`: the phases of a machine as they come."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path

import click
from rich.console import Console
from rich.status import Status

from reflexarc.cli.main import EXIT_FAILED
from reflexarc.cli.options import Seconds, call, entry_of, inventory_option, json_option, machine_argument
from reflexarc.cli.text import dump, is_terminal
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.observation import Observation


@click.command()
@machine_argument
@inventory_option
@json_option
@click.option("--until", metavar="PHASE", help="End with 0 once this phase (or a child of it) is seen.")
@click.option(
    "--timeout", type=Seconds(), help="End after so many seconds; with 1 where --until was not seen."
)
def watch(
    machine: str, inventory: Path | None, as_json: bool, until: str | None, timeout: float | None
) -> int:
    """Say each phase as the machine enters it, until Ctrl-C. It takes no lock and sends nothing."""
    return call(_watch(entry_of(machine, inventory), as_json, until, timeout))


async def _watch(entry: Entry, as_json: bool, until: str | None, timeout: float | None) -> int:
    deadline = None if timeout is None else time.monotonic() + timeout
    live = is_terminal(sys.stderr) and not as_json
    async with open_session(entry, launch=False) as session:
        if until is not None and until not in session.phases:
            raise click.UsageError(f"there is no phase {until!r}; `reflexarc phases list` names all")
        began, seen, phase = time.monotonic(), None, ""
        with Status("", console=Console(stderr=True)) if live else nullcontext() as status:
            while True:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                seen = await session.watcher.next(seen, left)
                if seen is None:
                    return EXIT_FAILED if until else 0
                if status is not None:
                    status.update(f"{seen.phase} for {time.monotonic() - seen.changed_at:.0f} s")
                if seen.phase == phase:
                    continue
                phase = seen.phase
                click.echo(_line(entry.name, seen, time.monotonic() - began, as_json=as_json))
                if until is not None and session.phases.is_a(phase, until):
                    return 0


def _line(machine: str, seen: Observation, seconds: float, *, as_json: bool) -> str:
    rung = seen.origin or seen.rung
    if as_json:
        return dump(
            {
                "machine": machine,
                "seconds": round(seconds, 3),
                "phase": seen.phase,
                "confidence": seen.confidence,
                "rung": rung,
                "complete": seen.complete,
            }
        )
    return f"{seconds:8.2f} s  {seen.phase:<22} {rung} {seen.confidence:.2f}"
