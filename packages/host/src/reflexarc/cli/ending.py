"""What is printed when a run is held or has ended, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import click

from reflexarc.cli.main import EXIT_FAILED, EXIT_HELD, EXIT_INTERRUPTED
from reflexarc.cli.text import dump, is_terminal, one_line, printable
from reflexarc.playbook.state import Escalation, Outcome, RunState, Stage
from reflexarc.runs.describe import describe_escalation

if TYPE_CHECKING:
    from reflexarc.runs.run import Run


OUTLINE_LINES = 20


def exit_code(state: RunState) -> int:
    """0 succeeded, 1 failed or aborted, 3 held, 130 interrupted."""
    if state.outcome is not None:
        return 0 if state.outcome is Outcome.SUCCEEDED else EXIT_FAILED
    return EXIT_HELD if state.stage is Stage.HELD else EXIT_INTERRUPTED


def show_end(run: Run, *, as_json: bool) -> int:
    """Print how the run stands, for a person or as JSON; return the exit code."""
    with suppress(OSError):
        _show(run, as_json=as_json)
    return exit_code(run.state)


def _show(run: Run, *, as_json: bool) -> None:
    state = run.state
    held = run.escalation
    if as_json or (held is not None and not is_terminal(sys.stdout)):
        click.echo(dump(describe_escalation(state, held) if held is not None else run.describe()))
    elif held is not None:
        show_escalation(state, held)
    else:
        show_outcome(run.describe())


def show_escalation(state: RunState, held: Escalation) -> None:
    """Say what the run asks, with what is on the screen and how to answer."""
    click.echo(
        f"HELD  run {state.run_id}, escalation {held.id}: {held.reason} at step {one_line(held.step_name)!r}"
    )
    click.echo(f"  expected {', '.join(held.expected) or 'what the step says'}; the machine shows "
               f"{held.observed_phase} (confidence {held.confidence:.2f}, {held.rung})")  # fmt: skip
    if held.detail:
        click.echo(f"  {printable(held.detail)}")
    lines = [line for line in printable(held.text).splitlines() if line.strip()]
    for line in lines[-12:]:
        click.echo(f"  | {line}")
    outline = printable(held.outline).splitlines()
    for line in outline[:OUTLINE_LINES]:
        click.echo(f"  : {line}")
    if len(outline) > OUTLINE_LINES:
        click.echo(
            f"  : ... {len(outline) - OUTLINE_LINES} more lines; `reflexarc runs show --json` has them"
        )
    if state.is_frozen:
        click.echo("  the machine stands still; a reply lets it go on")
    elif state.freeze_error:
        click.echo(f"  the machine goes on: {printable(state.freeze_error)}")
    click.echo(
        f"  answer: reflexarc runs reply {state.run_id} resume | amend FILE | act FILE | "
        "teach --phase PHASE --text REGEX | abort"
    )


def show_outcome(described: Mapping[str, object]) -> None:
    """Say how the run ended and what it cost."""
    telemetry = cast("Mapping[str, object]", described["telemetry"])
    reason = f": {printable(str(described['reason']))}" if described["reason"] else ""
    click.echo(f"{described['outcome']}{reason}  (run {described['run_id']})")
    for name, value in cast("Mapping[str, object]", described["registered"]).items():
        shown = value.get("match") if isinstance(value, Mapping) and value.get("match") else value
        click.echo(f"  {name} = {one_line(str(shown))[:200]}")
    for warning in cast("list[str]", described["warnings"]):
        click.echo(f"  warning: {one_line(warning)}")
    reads = cast("Mapping[str, int]", telemetry["reads"])
    rungs = ", ".join(f"{rung} {count}" for rung, count in sorted(reads.items(), key=lambda item: -item[1]))
    click.echo(
        f"  {telemetry['seconds']} s; {sum(reads.values())} state reads ({rungs}); "
        f"{telemetry['vision_calls']} vision calls; cheap share {telemetry['cheap_share']}"
    )


def show_steps(described: Mapping[str, object]) -> None:
    """Say for each step how long the run waited, acted and was held."""
    telemetry = cast("Mapping[str, object]", described["telemetry"])
    for step in cast("list[Mapping[str, object]]", telemetry["steps"]):
        click.echo(
            f"  {step['waiting']!s:>8} s waiting {step['acting']!s:>7} s acting "
            f"{step['held']!s:>8} s held  {one_line(str(step['name']))}"
        )
