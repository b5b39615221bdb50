"""`reflexarc runs report` and `runs stats`, and the reports that `reflexarc run` writes.

Reports load nothing of drivers; pictures and documents are loaded when they are made.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from reflexarc.cli.options import json_option, run_argument
from reflexarc.cli.text import called, dump, printable
from reflexarc.errors import ConfigError
from reflexarc.inventory.places import places
from reflexarc.playbook.words import Stage
from reflexarc.runs.artifacts import kept
from reflexarc.runs.journal import Journal
from reflexarc.runs.stats import GROUPINGS, Group, stats


@click.command()
@run_argument
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write one self-contained page."
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML.")
def report(run_id: str, html: Path | None, junit: Path | None) -> None:
    """Write the report of a run: what it saw, did and cost. An id may be cut short."""
    if html is None and junit is None:
        raise click.UsageError("say where to write it: --html FILE, --junit FILE or both")
    check_targets(html, junit)
    write_reports([_journal().find(run_id)], html=html, junit=junit)


@click.command("stats")
@click.option("--by", type=click.Choice(GROUPINGS), default="playbook", show_default=True)
@click.option(
    "--limit",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="Only the newest runs.",
)
@json_option
def show_stats(by: str, limit: int, as_json: bool) -> None:
    """Say how runs went: outcomes, seconds of those that succeeded, cheap share, escalations."""
    found = stats(_journal(), places().runs, by, limit=limit)
    if as_json:
        click.echo(dump([group.as_dict() for group in found]))
        return
    if found:
        click.echo(f"{by:<28} {'runs':>5} {'median':>9} {'p90':>9} {'cheap':>7}  outcomes; escalations")
    for group in found:
        click.echo(printable(_line(group)))


def _line(group: Group) -> str:
    times = (f"{value:.1f} s" if value is not None else "-" for value in (group.median, group.p90))
    middle, slow = times
    counts = "; ".join(
        filter(None, (_counts(group.outcomes.items()), _counts(group.total.escalations.items())))
    )
    return f"{group.name:<28} {group.runs:>5} {middle:>9} {slow:>9} {group.total.cheap_share:>7.1%}  {counts}"


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(
        f"{name} {count}" for name, count in sorted(counts, key=lambda item: (-item[1], item[0]))
    )


def _journal() -> Journal:
    return Journal(places().journal, read_only=True)


_SUFFIXES = (".html", ".htm", ".xml", ".webp")


def check_targets(*targets: Path | None) -> None:
    """Raise ConfigError where a report could not be written, before anything is sent to a machine.

    Only plain files are written over, and none of reflexarc's own.
    """
    for target in targets:
        if target is None:
            continue
        if not (target.parent.is_dir() and os.access(target.parent, os.W_OK)):
            raise ConfigError(
                "can't write a report here: there is no such folder, or it is not writable", path=target
            )
        if target.suffix not in _SUFFIXES:
            raise ConfigError(f"a report's name ends in {', '.join(_SUFFIXES)}", path=target)
        if target.exists() and not target.is_file():
            raise ConfigError("this is no plain file, and is not written over", path=target)
        if target.resolve().is_relative_to(places().state.resolve()):
            raise ConfigError(
                "this is in the folder where reflexarc keeps its state; write elsewhere", path=target
            )


def write_reports(run_ids: Sequence[str], *, html: Path | None, junit: Path | None) -> None:
    """Write the reports of runs: one JUnit file of all; of several pages each has its machine's name in its own."""
    if not run_ids or (html is None and junit is None):
        return
    from reflexarc.report.html import html_report
    from reflexarc.report.junit import junit as junit_xml
    from reflexarc.report.story import tell

    journal = _journal()
    stories = [tell(journal, places().runs, run_id) for run_id in run_ids]
    if junit is not None:
        _write(junit, junit_xml(stories))
    if html is not None:
        for story in stories:
            target = html if len(stories) == 1 else html.with_stem(f"{html.stem}-{story.state.machine}")
            _write(target, html_report(story).encode())
    for story in stories:
        if story.state.stage is not Stage.ENDED:
            run = story.state.run_id
            files = "".join(f" {option} {shlex.quote(str(path))}" for option, path in _targets(html, junit))
            click.echo(f"run {run} has not ended; after it: `{called()} runs report {run}{files}`", err=True)


def _targets(html: Path | None, junit: Path | None) -> Iterator[tuple[str, Path]]:
    if html is not None:
        yield "--html", html
    if junit is not None:
        yield "--junit", junit


def video_target(video: str | None) -> Path | None:
    """The file that a video is copied to; raises a usage error for a name that may be meant otherwise."""
    if not video:
        return None
    if Path(video).suffix != ".webp":
        raise click.UsageError(f"--video takes a file whose name ends in .webp, or none, not {video!r}")
    return Path(video)


def copy_videos(run_ids: Sequence[str], target: Path | None) -> None:
    """Copy the videos of runs; of several each has its machine's name in its own."""
    if target is None:
        return
    runs = {run.run_id: run for run in _journal().runs() if run.run_id in run_ids}
    for run_id in run_ids:
        video = kept(places().runs / run_id).get("video")
        if video is not None:
            name = target if len(run_ids) == 1 else target.with_stem(f"{target.stem}-{runs[run_id].machine}")
            _write(name, video.read_bytes())
            if runs[run_id].stage != Stage.ENDED:
                click.echo(f"run {run_id} has not ended: {video} is what goes on", err=True)


def _write(target: Path, content: bytes) -> None:
    """Write a file at once, so that no reader finds half of it."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    except OSError as error:
        raise ConfigError(f"can't write the report: {error.strerror}", path=target) from error
    click.echo(f"wrote {target}", err=True)
