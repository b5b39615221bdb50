"""Searching with the application's own search, without reading its tree.

Source: AT-SPI2, `xml/Collection.xml`.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Optional

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ANSWER, GET_PROPERTY, Asking, Bounds, is_key, keys
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.reading import Reading
from reflexarc_agent.backends.linux.atspi.selecting import RULE, Selector, match_rule
from reflexarc_agent.backends.linux.dbus.bus import Call, call_of
from reflexarc_agent.backends.linux.dbus.errors import DBusError

COUNTS = (4, 16, 64, 1000)
"""How many are searched for, until enough of them have the name: GTK 3 takes long to look at the last of a list."""

DEEPEST = 64


class Collected(NamedTuple):
    """What was found, and whether that is all there is."""

    elements: list[Element]
    complete: bool


async def collected(app: Application, selector: Selector, limit: int, bounds: Bounds) -> Optional[Collected]:
    """What a search finds by role and name, `limit` at most, each hung below its ancestors.

    None where the application's own search can't tell: the tree has to be read.
    """
    if not selector.role or selector.name is None or app.from_window or app.toolkit == "Qt":
        return None
    try:
        found, complete = await _named(app, selector, limit, bounds)
    except DBusError:
        return None
    if not found:
        return None
    await _described(app, found, bounds)
    return Collected([element for element in found if selector.matches(element)][:limit], complete)


async def _named(
    app: Application, selector: Selector, limit: int, bounds: Bounds
) -> tuple[list[Element], bool]:
    """Those of the role that have the name; raises DBusError where they can't be searched for."""
    known: dict[Key, Element] = {}
    for count in COUNTS if limit < COUNTS[0] else COUNTS[2:]:
        call = Call(*app.root.key, names.COLLECTION, "GetMatches", RULE, match_rule(selector, count))
        hits = keys(await app.ask(call, ANSWER))
        asking = Asking(app, bounds)
        for key in hits:
            if key not in known:
                known[key] = Element(key)
                asking.ask(known[key], GET_PROPERTY, _name, "ss", names.NAME_BODY)
        await asking.finish(ANSWER)
        found = [element for element in known.values() if element.name == selector.name]
        complete = len(hits) < count and not asking.timed_out
        if complete or len(found) >= limit:
            return found[: limit + 1], complete and len(found) <= limit
    return [], False


def _name(element: Element, value: Any) -> None:
    element.name = value if isinstance(value, str) else ""


async def _described(app: Application, found: list[Element], bounds: Bounds) -> None:
    """Read what is said of these and of their ancestors."""
    await asyncio.gather(
        Reading(app, bounds).parts(found, (), ANSWER),
        *(_hang_below_ancestors(app, element, bounds) for element in found),
    )


async def _hang_below_ancestors(app: Application, element: Element, bounds: Bounds) -> None:
    """Hang an element that was found without its tree below its ancestors, each described meanwhile."""
    described = []
    below = element
    for _ in range(DEEPEST):
        call = call_of(*below.key, names.PROPERTIES + ".Get", "ss", names.ACCESSIBLE, "Parent")
        try:
            key = await app.ask(call, ANSWER)
        except DBusError:
            break
        if not is_key(key):
            break
        below.parent = Element(key)
        below = below.parent
        described.append(asyncio.ensure_future(Reading(app, bounds).parts([below], (), ANSWER)))
        if key == app.root.key:
            break
    if described:
        await asyncio.wait(described)
