"""`reflexarc key`, `type` and `power`: single commands to a machine, behind the same guard as runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from reflexarc.cli.asking import authorised
from reflexarc.cli.options import Seconds, call, entry_of, inventory_option, machine_argument
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.machine import keys
from reflexarc.machine.policy import chord_operation, is_destructive
from reflexarc.runs.secrets import resolve
from reflexarc.runs.session import Session

_POWER = {
    "status": None,
    "on": "power.on",
    "shutdown": "power.shutdown",
    "off": "power.off",
    "reset": "power.reset",
    "cycle": "power.cycle",
}

yes_option = click.option("--yes", is_flag=True, help="Authorise what is destructive (on a terminal only).")


@click.command()
@machine_argument
@click.argument("chord")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1, 200))
@yes_option
@inventory_option
def key(machine: str, chord: str, times: int, yes: bool, inventory: Path | None) -> None:
    """Press a key or a chord such as ctrl+alt+f2."""
    operation = chord_operation(keys.chord(chord)) or "keyboard.press"

    async def press(session: Session) -> None:
        await session.keyboard.press(chord, times=times)

    call(_send(entry_of(machine, inventory), operation, yes, press))


@click.command("type")
@machine_argument
@click.argument("text", required=False)
@click.option("--secret", help="Type a secret instead: env:NAME, file:PATH or keyring:NAME.")
@click.option("--enter", is_flag=True, help="Press Enter after it.")
@inventory_option
def type_text(
    machine: str, text: str | None, secret: str | None, enter: bool, inventory: Path | None
) -> None:
    """Type a text; it is refused before anything is sent where the keymap can't."""
    if (text is None) == (secret is None):
        raise click.UsageError("give either a TEXT or --secret")
    typed = resolve("text", secret) if secret is not None else text or ""

    async def write(session: Session) -> None:
        await session.keyboard.type(typed, secret=secret is not None)
        if enter:
            await session.keyboard.press("enter")

    call(_send(entry_of(machine, inventory), "keyboard.type", False, write))


@click.command()
@machine_argument
@click.argument("act", type=click.Choice(list(_POWER)))
@yes_option
@inventory_option
@click.option("--timeout", default=120.0, show_default=True, type=Seconds(), help="Seconds for `shutdown`.")
def power(machine: str, act: str, yes: bool, inventory: Path | None, timeout: float) -> None:
    """Ask for the power's state, or switch it; each act ends when the machine reports the new state."""
    entry = entry_of(machine, inventory)
    operation = _POWER[act]

    async def switch(session: Session) -> None:
        controls: dict[str, Callable[[], Awaitable[None]]] = {
            "on": session.power.on,
            "shutdown": lambda: session.power.shutdown(timeout),
            "off": session.power.off,
            "reset": session.power.reset,
            "cycle": session.power.cycle,
        }
        await controls[act]()
        click.echo(f"{machine}: {await session.power.state()}")

    if operation is None:
        call(_status(entry))
    else:
        call(_send(entry, operation, yes, switch))


async def _status(entry: Entry) -> None:
    async with open_session(entry, launch=False) as session:
        click.echo(f"{entry.name}: {await session.power.state()}")


async def _send(entry: Entry, operation: str, yes: bool, act: Callable[[Session], Awaitable[None]]) -> None:
    granted = [operation] if is_destructive(operation) and authorised(entry.name, operation, yes) else []
    async with open_session(entry, grant=granted, holder="a single command", launch=False) as session:
        await act(session)
