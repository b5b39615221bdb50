"""`reflexarc demo`: build a small machine and drive it from power-on to a shell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from reflexarc.cli.driving import drive
from reflexarc.cli.options import call, json_option
from reflexarc.cli.progress import view
from reflexarc.cli.text import called, is_terminal
from reflexarc.demo.machine import PLAYBOOKS, DemoMachine, prepare
from reflexarc.inventory.opening import end_of_run, open_session
from reflexarc.inventory.places import places
from reflexarc.playbook.state import Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.run import abort


@click.command()
@click.option("--surprise", is_flag=True, help="Boot an entry that panics, and hold for an answer.")
@json_option
def demo(surprise: bool, as_json: bool) -> int:
    """Build a small bootable image from Debian packages and drive it from power-on to a shell.

    The demo authorises the shutdown of its own machine, and nothing else.
    """
    return call(_demo(_prepared(), surprise=surprise, as_json=as_json))


def _prepared() -> DemoMachine:
    console = Console(stderr=True)
    if not console.is_terminal:
        return prepare(lambda what, share: None)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("the demo's image", total=1.0)
        update: Callable[[str, float], None] = lambda what, share: bar.update(  # noqa: E731
            task, description=what, completed=share
        )
        return prepare(update)


async def _demo(machine: DemoMachine, *, surprise: bool, as_json: bool) -> int:
    playbook = PLAYBOOKS / ("surprise.yaml" if surprise else "demo.yaml")
    interactive = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not as_json
    await _end_earlier(machine)
    async with open_session(machine.entry, holder="reflexarc demo") as session:
        shown = view()
        run = await session.begin(
            session.load(playbook),
            secret_references={"password": f"file:{machine.password}"},
            grant=() if surprise else ("power.shutdown",),
            by="reflexarc demo, for its own machine",
            listener=shown,
        )
        if surprise:
            _tell_how_to_answer(run.id, PLAYBOOKS / "recover.yaml")
        code = await drive(run, shown, as_json=as_json, interactive=interactive)
    if not as_json and run.state.stage is Stage.ENDED:
        _tell_what_next(run.id, machine)
    return code


async def _end_earlier(machine: DemoMachine) -> None:
    """End the demo's earlier runs that are held or interrupted; no process may be driving one."""
    found = places()
    journal = Journal(found.journal)

    async def at_end(run_id: str) -> None:
        await end_of_run(machine.entry, run_id)

    for run in journal.runs(place=machine.entry.place, open_only=True):
        click.echo(f"ending the earlier run {run.run_id}", err=True)
        await abort(journal, found.runs, run.run_id, "another demo was started", by="demo", at_end=at_end)
    journal.close()


def _tell_what_next(run_id: str, machine: DemoMachine) -> None:
    """Where to go on from here, to standard error: what is on standard output is the run's."""
    inventory = shlex.quote(str(machine.inventory))
    name = machine.entry.name
    for what, words in (
        ("what it saw and did", f"runs show {run_id}"),
        ("the same as a page", f"runs report {run_id} --html demo.html"),
        ("a run that is held", "demo --surprise"),
        ("the machine by hand", f"machines start {name} --inventory {inventory}"),
        ("one of your own", "init lab1 --disk DISK.qcow2"),
    ):
        click.echo(f"  {called()} {words}  # {what}", err=True)


def _tell_how_to_answer(run_id: str, recover: Path) -> None:
    if recover.is_relative_to(Path.cwd()):
        recover = recover.relative_to(Path.cwd())
    click.echo("When the run is held, answer it from another terminal:", err=True)
    click.echo(
        f"  {called()} runs reply {run_id} amend {recover} --resume-at 0 --grant power.reset", err=True
    )
