"""`reflexarc observe` and `reflexarc screenshot`: looking at a machine changes nothing on it."""

from __future__ import annotations

from pathlib import Path

import click

from reflexarc.cli.options import call, entry_of, inventory_option, json_option, machine_argument
from reflexarc.cli.text import dump, printable
from reflexarc.errors import ConfigError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.machine.frame import Frame
from reflexarc.observation import Observation


@click.command()
@machine_argument
@inventory_option
@json_option
@click.option("--image", type=click.Path(path_type=Path, dir_okay=False), help="Also save the frame as PNG.")
@click.option("--explain", is_flag=True, help="Say how the frame was had and what each rung saw.")
def observe(machine: str, inventory: Path | None, as_json: bool, image: Path | None, explain: bool) -> None:
    """Say what phase a machine is in, how sure that is, which rung told, and what the screen reads."""
    seen, frame, source = call(_observe(entry_of(machine, inventory)))
    if image is not None and frame is not None:
        _save(frame, image)
    if as_json:
        click.echo(dump(_as_dict(machine, seen, frame, source)))
        return
    click.echo(f"{seen.phase}  (confidence {seen.confidence:.2f}, {_rung(seen)})")
    if explain:
        size = f"{frame.width}x{frame.height}" if frame is not None else "no frame"
        click.echo(f"frame: {size}; {source}")
        click.echo(
            f"evidence: {'complete' if seen.complete else 'not complete'}; guess: {seen.guess or 'none'}"
        )
    if seen.text:
        click.echo(printable(seen.text).rstrip())


async def _observe(entry: Entry) -> tuple[Observation, Frame | None, str]:
    async with open_session(entry, launch=False) as session:
        seen = await session.observe()
        source = session.screen.source() if "screen" in session.machine.offers else "no screen"
        return seen, session.frame_of(seen), source


def _rung(seen: Observation) -> str:
    return seen.rung if seen.rung == seen.origin or not seen.origin else f"{seen.rung} of {seen.origin}"


def _as_dict(machine: str, seen: Observation, frame: Frame | None, source: str) -> dict[str, object]:
    screen = seen.screen
    return {
        "machine": machine,
        "phase": seen.phase,
        "confidence": seen.confidence,
        "rung": seen.rung,
        "origin": seen.origin,
        "complete": seen.complete,
        "guess": seen.guess,
        "text": seen.text,
        "highlighted": [list(run) for run in screen.highlighted] if screen else [],
        "cursor": list(screen.cursor) if screen and screen.cursor else None,
        "frame": {"width": frame.width, "height": frame.height, "source": source} if frame else None,
    }


@click.command()
@machine_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@inventory_option
def screenshot(machine: str, file: Path, inventory: Path | None) -> None:
    """Save what a machine shows to FILE, as PNG."""
    frame = call(_screenshot(entry_of(machine, inventory)))
    _save(frame, file)
    click.echo(f"{file}: {frame.width}x{frame.height}")


async def _screenshot(entry: Entry) -> Frame:
    async with open_session(entry, launch=False) as session:
        return await session.screen.screenshot()


def _save(frame: Frame, path: Path) -> None:
    try:
        path.write_bytes(frame.png())
    except OSError as error:
        raise ConfigError(f"can't write the picture: {error.strerror}", path=path) from error
