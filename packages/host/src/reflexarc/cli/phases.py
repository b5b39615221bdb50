"""`reflexarc phases`: which phases are known, why a frame is taken for one, and how well that goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

import click

from reflexarc.cli.options import json_option
from reflexarc.cli.text import dump, printable
from reflexarc.inventory.places import own_phases, phase_folders
from reflexarc.sensing.explain import Candidate, Explanation
from reflexarc.sensing.explain import explain as explain_frame
from reflexarc.sensing.needle import digest, middle
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.taught import accept, forget, kept


@click.group()
def phases() -> None:
    """List phases, explain a frame, try the recognisers on labelled screens, accept and forget what was taught."""


@phases.command("list")
@click.option("--taught", is_flag=True, help="Only what runs were taught, accepted or not.")
@json_option
def list_phases(taught: bool, as_json: bool) -> None:
    """List every phase: its parent, whether it may pass or alarms, its usual maximum, where it is defined."""
    if taught:
        _list_taught(as_json=as_json)
        return
    known = load_recognisers(phase_folders())
    rows = [{**asdict(phase), "defined": known.places[name]} for name, phase in known.phases.items()]
    if as_json:
        click.echo(dump(rows))
        return
    for row in rows:
        kind = "passing" if row["passing"] else "alarm" if row["alarm"] else ""
        click.echo(f"{row['name']:<24} {row['parent'] or '':<18} {kind:<8} "
                   f"{row['usual_max']:>6.0f} s  {printable(row['defined'])}")  # fmt: skip


def _list_taught(*, as_json: bool) -> None:
    found = kept(own_phases())
    if as_json:
        click.echo(dump([asdict(one) for one in found]))
        return
    for one in found:
        counts = "counts" if one.accepted else "to be accepted"
        click.echo(
            printable(f"{one.name:<36} {counts:<14} by {one.by}, run {one.run}: {' and '.join(one.evidence)}")
        )


@phases.command("accept")
@click.argument("name")
def accept_taught(name: str) -> None:
    """Let what an agent taught count in later runs, preconditions included. NAME as `list --taught` says."""
    accept(own_phases(), name)
    click.echo(f"{name}: accepted")


@phases.command("forget")
@click.argument("name")
def forget_taught(name: str) -> None:
    """Remove what a run was taught. NAME as `list --taught` says."""
    forget(own_phases(), name)
    click.echo(f"{name}: forgotten")


@phases.command()
@click.argument("frame", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--needle", metavar="WIDTHxHEIGHT", help="Print the digest of the middle of the frame instead.")
@json_option
def explain(frame: Path, needle: str | None, as_json: bool) -> None:
    """Say what the picture FRAME reads and which evidence for which phase held in it or failed."""
    loaded = load_frame(frame)
    if needle is not None:
        width, height = _size(needle)
        place = middle(loaded.pixels, width, height)
        if place is None:
            raise click.UsageError(f"{needle} does not fit into the frame of {loaded.width}x{loaded.height}")
        click.echo(digest(loaded.pixels, place))
        return
    found = explain_frame(loaded, load_recognisers(phase_folders()))
    if as_json:
        click.echo(dump(_as_dict(found)))
    else:
        _show(found)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        raise click.UsageError(f"--needle takes WIDTHxHEIGHT, not {text!r}")
    return int(width[:6]), int(height[:6])


def _as_dict(found: Explanation) -> dict[str, object]:
    seen, screen = found.observation, found.observation.screen
    return {
        "phase": seen.phase,
        "confidence": seen.confidence,
        "rung": seen.rung,
        "complete": seen.complete,
        "guess": seen.guess,
        "text": seen.text,
        "readable": screen.confidence if screen else 0.0,
        "highlighted": [list(run) for run in screen.highlighted] if screen else [],
        "cursor": list(screen.cursor) if screen and screen.cursor else None,
        "needles": list(found.needles),
        "candidates": [asdict(candidate) for candidate in found.candidates],
    }


def _show(found: Explanation) -> None:
    seen = found.observation
    complete = "complete" if seen.complete else "not complete"
    guess = f", guess {seen.guess}" if seen.guess else ""
    click.echo(f"{seen.phase}  (confidence {seen.confidence:.2f}, {seen.rung}, {complete}{guess})")
    if seen.screen is None:
        click.echo("no text console is seen in this picture")
    for line in printable(seen.text).rstrip().splitlines():
        click.echo(f"  | {line}")
    near = [candidate for candidate in found.candidates if candidate.is_near]
    for candidate in near:
        _show_candidate(candidate)
    click.echo(
        f"of {len(found.candidates)} recognisers, {len(found.candidates) - len(near)} saw nothing of theirs"
    )


def _show_candidate(candidate: Candidate) -> None:
    click.echo(f"{candidate.phase}  {candidate.confidence:.2f}  {printable(candidate.place)}")
    for name in ("evidence", "unless", "completing"):
        for text, held in getattr(candidate, name):
            click.echo(f"    {name:<10} {'held  ' if held else 'failed'}  {printable(text)}")


@phases.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def test(folder: Path, as_json: bool) -> None:
    """Classify the labelled screens of FOLDER, and read their texts where these are known.

    FOLDER has phases.json ({name: phase}) or index.jsonl ({"file", "phase"} a line); NAME.txt is the true text.
    """
    from rich.console import Console
    from rich.progress import track

    from reflexarc.sensing.trial import judge, labels, summary

    chosen = labels(folder)
    judged = judge(chosen, load_recognisers(phase_folders()))
    results = list(track(judged, "reading screens", total=len(chosen), console=Console(stderr=True)))
    figures = summary(results)
    if as_json:
        click.echo(dump(figures))
        return
    ms = cast("Mapping[str, float]", figures["ms"])
    cer = "no true texts" if figures["cer"] is None else f"{figures['cer']:.4%} of {figures['characters']}"
    click.echo(f"{figures['n']} screens: {figures['answered']} answered, {figures['right']} right, "
               f"{figures['rightly_unknown']} rightly left unknown, "
               f"{figures['confident_wrong']} confidently wrong")  # fmt: skip
    click.echo(f"characters wrong: {cer}")
    click.echo(f"ms a screen: {ms['median']} median, {ms['p90']} p90, {ms['max']} max")
    for label, answers in cast("Mapping[str, Mapping[str, int]]", figures["confusion"]).items():
        told = ", ".join(f"{answer} {count}" for answer, count in answers.items())
        click.echo(f"  {printable(label):<24} {told}")
    for mistake in cast("list[Mapping[str, object]]", figures["mistakes"]):
        click.echo(
            printable(f"  {mistake['file']}: taken for {mistake['answer']}, labelled {mistake['phase']}")
        )
