"""`reflexarc ax`: the elements of a guest's desktop, read and acted on by what they are."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import click

from reflexarc.cli.main import EXIT_FAILED
from reflexarc.cli.options import (
    Number,
    Seconds,
    call,
    entry_of,
    inventory_option,
    json_option,
    machine_argument,
)
from reflexarc.cli.text import dump as as_line
from reflexarc.cli.text import one_line, printable
from reflexarc.errors import OperationRejectedError, OperationTimeoutError
from reflexarc.inventory.opening import open_session
from reflexarc.machine.accessibility import Element, Found, Selector, Tree
from reflexarc.machine.elements import Elements, in_words
from reflexarc.runs.codec import plain
from reflexarc.runs.session import Session

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
_CHECKED = frozenset(("AXCheckBox", "AXRadioButton", "AXMenuItem"))
_NUMBERS = frozenset(("AXSlider", "AXScrollBar"))


@click.group()
def ax() -> None:
    """Read the elements of a guest's desktop, and act on them by what they are."""


def _selecting(*, value: bool = True) -> Callable[[F], F]:
    """The options that tell an element, as one Selector."""
    options = [
        click.option("--role", help="Its role: AXButton, or the guest's own name such as 'push button'."),
        click.option("--name", help="Its whole name."),
        click.option("--value", help="Its whole value.") if value else None,
        click.option("--text", help="A text within its name or its value."),
        click.option("--enabled/--disabled", default=None, help="Only what can, or can't, be used."),
        click.option("--focused/--unfocused", default=None, help="Only what has, or hasn't, the focus."),
        click.option("--hidden", is_flag=True, help="Also what isn't on the screen."),
    ]

    def decorate(function: F) -> F:
        for option in reversed(options):
            if option is not None:
                function = option(function)
        return function

    return decorate


_app_option = click.option("--app", help="Only in the application of this name.")


def _selector(given: dict[str, object]) -> Selector:
    """The selector of a command's options, which are taken out of what is given."""
    hidden = given.pop("hidden")
    asked = {key: given.pop(key, None) for key in ("role", "name", "value", "text", "enabled", "focused")}
    if not any(asked[key] for key in ("role", "name", "value", "text")):
        raise click.UsageError("say which element: --role, --name, --value or --text")
    return Selector.of({**asked, "showing": not hidden})


def _reading(machine: str, inventory: Path | None, read: Callable[[Session], Awaitable[T]]) -> T:
    """What is read on a machine that is up."""

    async def go() -> T:
        async with open_session(entry_of(machine, inventory), launch=False) as session:
            return await read(session)

    return call(go())


def _acting(
    machine: str,
    inventory: Path | None,
    app: str | None,
    as_json: bool,
    act: Callable[[Elements], Awaitable[Element]],
) -> None:
    """Act on one element, and say which it was."""

    async def go() -> Element:
        async with open_session(
            entry_of(machine, inventory), holder="a single command", launch=False
        ) as session:
            return await act(Elements(session.accessibility, session.name, app=app))

    _say([call(go())], as_json=as_json)


def _say(elements: list[Element], *, as_json: bool) -> None:
    if as_json:
        click.echo(as_line(plain(elements)))
        return
    for element in elements:
        click.echo(one_line(in_words(element) + _facts(element)))


def _facts(element: Element) -> str:
    said = [f"= {element.value!r}"] if element.value not in (None, "") else []
    said += ["focused"] * bool(element.focused) + ["disabled"] * (element.enabled is False)
    area = element.area
    said += [f"at {area.x:g},{area.y:g} {area.width:g}x{area.height:g}"] if area is not None else []
    said += [f"[{', '.join(element.actions)}]"] if element.actions else []
    return "".join(f"  {part}" for part in said)


@ax.command()
@machine_argument
@click.option("--app", help="The application, by its name or process; that in front if left out.")
@click.option(
    "--outline/--tree", default=True, show_default=True, help="A compact outline, or the whole tree."
)
@click.option("--interactive", is_flag=True, help="Only what can be acted on.")
@click.option("--depth", type=click.IntRange(0, 64), help="How deep at most.")
@click.option("--nodes", type=click.IntRange(1, 100_000), help="How many elements at most.")
@json_option
@inventory_option
def dump(
    machine: str,
    app: str | None,
    outline: bool,
    interactive: bool,
    depth: int | None,
    nodes: int | None,
    as_json: bool,
    inventory: Path | None,
) -> None:
    """Print the tree of an application."""

    async def read(session: Session) -> Tree:
        return await session.accessibility.dump(
            await _process(session, app) if app is not None else None,
            form="outline" if outline else "tree",
            max_depth=depth,
            max_nodes=nodes,
            interactive_only=interactive,
        )

    tree = _reading(machine, inventory, read)
    if as_json:
        click.echo(as_line(plain(tree)))
        return
    click.echo(printable(tree.outline) if outline else "\n".join(_lines(tree.root, 0)))
    if not tree.complete:
        click.echo(f"not complete: {one_line(tree.capped) or 'a bound was met'}", err=True)


async def _process(session: Session, app: str) -> int:
    running = await session.accessibility.apps()
    found = [one.pid for one in running if app in (one.name, str(one.pid))]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{one.name} ({one.pid})" for one in running) or "none"
    what = "more than one application" if found else "no application"
    raise OperationRejectedError(
        f"its desktop has {what} {app!r}; it has {known}", machine=session.name, operation="observe.tree"
    )


def _lines(element: Element | None, depth: int) -> Iterator[str]:
    if element is not None:
        name = f' "{element.name}"' if element.name else ""
        yield "  " * depth + one_line(f"{element.native or element.role}{name}{_facts(element)}")
        for child in element.children:
            yield from _lines(child, depth + 1)


@ax.command()
@machine_argument
@_selecting()
@_app_option
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many at most."
)
@json_option
@inventory_option
def find(
    machine: str, app: str | None, limit: int, as_json: bool, inventory: Path | None, **given: object
) -> int:
    """List the elements that are meant; 1 where there is none."""
    selector = _selector(given)

    async def read(session: Session) -> Found:
        return await Elements(session.accessibility, session.name, app=app).find(selector, limit=limit)

    found = _reading(machine, inventory, read)
    if as_json:
        click.echo(as_line(plain(found)))
    else:
        _say(list(found.elements), as_json=False)
        if not found.complete:
            click.echo(f"not complete: {one_line(found.capped) or 'a bound was met'}", err=True)
    return 0 if found.elements else EXIT_FAILED


@ax.command()
@machine_argument
@click.argument("x", type=Number(-1e6, 1e6))
@click.argument("y", type=Number(-1e6, 1e6))
@json_option
@inventory_option
def at(machine: str, x: float, y: float, as_json: bool, inventory: Path | None) -> int:
    """Say which element is at a point of the screen; 1 where there is none."""

    async def read(session: Session) -> Element | None:
        return await session.accessibility.at(x, y)

    found = _reading(machine, inventory, read)
    _say([] if found is None else [found], as_json=as_json)
    return EXIT_FAILED if found is None else 0


@ax.command()
@machine_argument
@_selecting()
@_app_option
@json_option
@inventory_option
def press(machine: str, app: str | None, as_json: bool, inventory: Path | None, **given: object) -> None:
    """Press the element."""
    selector = _selector(given)
    _acting(machine, inventory, app, as_json, lambda elements: elements.press(selector))


@ax.command()
@machine_argument
@_selecting()
@_app_option
@json_option
@inventory_option
def focus(machine: str, app: str | None, as_json: bool, inventory: Path | None, **given: object) -> None:
    """Give the element the focus."""
    selector = _selector(given)
    _acting(machine, inventory, app, as_json, lambda elements: elements.focus(selector))


@ax.command()
@machine_argument
@click.argument("action")
@_selecting()
@_app_option
@json_option
@inventory_option
def action(
    machine: str, action: str, app: str | None, as_json: bool, inventory: Path | None, **given: object
) -> None:
    """Perform one of the element's actions, such as AXShowMenu."""
    selector = _selector(given)
    _acting(machine, inventory, app, as_json, lambda elements: elements.act(selector, action))


@ax.command("set")
@machine_argument
@click.argument("value")
@_selecting(value=False)
@_app_option
@json_option
@inventory_option
def set_value(
    machine: str, value: str, app: str | None, as_json: bool, inventory: Path | None, **given: object
) -> None:
    """Set the element's value to VALUE: true or false for what is checked, a number for a slider, else a text.

    It says which element that was, with the value that it has now.
    """
    selector = _selector(given)

    async def put(elements: Elements) -> Element:
        element = await elements.set_value(selector, typed(await elements.one(selector), value))
        # What was set may have closed its window.
        return await elements.again(element) or replace(element, value=None)

    _acting(machine, inventory, app, as_json, put)


def typed(element: Element, value: str) -> str | float | bool:
    """A value from the command line as the element takes it."""
    try:
        if element.role in _CHECKED:
            return {"true": True, "false": False}[value.lower()]
        if element.role not in _NUMBERS:
            return value
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(value)
        return number
    except (KeyError, ValueError):
        takes = "true or false" if element.role in _CHECKED else "a number"
        raise click.UsageError(f"{one_line(in_words(element))} takes {takes}, not {value!r}") from None


@ax.command()
@machine_argument
@_selecting()
@click.option("--gone", is_flag=True, help="Until there is none.")
@click.option("--timeout", default=30.0, show_default=True, type=Seconds(), help="Seconds.")
@json_option
@inventory_option
def wait(
    machine: str, gone: bool, timeout: float, as_json: bool, inventory: Path | None, **given: object
) -> int:
    """Wait for the element, and for the guest's agent; 1 where it does not come in time."""
    selector = _selector(given)

    async def read(session: Session) -> Element | None:
        return await Elements(session.accessibility, session.name).wait(selector, gone=gone, timeout=timeout)

    try:
        found = _reading(machine, inventory, read)
    except OperationTimeoutError as error:
        click.echo(one_line(str(error)), err=True)
        return EXIT_FAILED
    _say([] if found is None else [found], as_json=as_json)
    return 0
