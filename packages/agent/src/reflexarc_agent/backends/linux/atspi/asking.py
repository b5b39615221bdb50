"""Questions put to elements, many at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.batch import Batch
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.names import (
    ACCESSIBLE,
    ACTION,
    COMPONENT,
    HAS_ACTION,
    HAS_COMPONENT,
    HAS_TEXT,
    HAS_VALUE,
    LENGTH_BODY,
    NULL_PATH,
    PROPERTIES,
    STATE,
    TEXT,
    TEXT_BODY,
    TEXT_CHARACTERS,
    VALUE_BODY,
)
from reflexarc_agent.backends.linux.atspi.roles import INTERACTIVE, NUMBERS, TEXTS
from reflexarc_agent.backends.linux.dbus.bus import Call, Result
from reflexarc_agent.backends.linux.dbus.encoding import encode

Tell = Callable[[Element, Any], None]
"""Gets an element and the first value of the answer, None where that is an error."""

ANSWER = 1.0
"""Seconds that an application is given to answer a single question."""

ACTIONS, UNNAMED = 32, 4
BLOCKS = frozenset(("paragraph", "section", "list-item", "label", "static", "block-quote", "article"))
"""Of Firefox these have their text as a text only, and not as the name of what is in them."""

EMBEDDED = "\ufffc"
"""Stands in a text for an element of its own."""

EDITABLE = STATE["editable"]


@dataclass(frozen=True)
class Bounds:
    """How much of one application is read at most; a list longer than `children` is read where it shows."""

    nodes: int = 20_000
    children: int = 2_000
    depth: int = 128


class Asking:
    """A batch of questions to one application's elements; the answers are noted in its mirror."""

    def __init__(self, app: Application, bounds: Bounds) -> None:
        self.app = app
        self.bounds = bounds
        self.batch = Batch()
        self.timed_out = False
        self.full = False

    @property
    def capped(self) -> str | None:
        """Which bound was met: "time", "nodes" or none."""
        return "time" if self.timed_out else "nodes" if self.full else None

    async def finish(self, seconds: float) -> None:
        """Wait for the answers, for so long."""
        deadline = asyncio.get_running_loop().time() + seconds
        self.timed_out |= not await self.batch.finish(deadline)

    def ask(
        self, element: Element, method: tuple[str, str], tell: Tell, signature: str = "", body: bytes = b""
    ) -> None:
        """Put one question."""
        self.app.reads += 1
        owner, path = element.key
        call = Call(owner, path, *method, signature, body)
        self.app.post(self.batch, call, partial(_first, tell, element))

    def contents(self, element: Element) -> None:
        """Ask what a text or a number that shows holds; passwords are never asked for."""
        element.value = None
        if not self.app.shows(element):
            return
        if self.app.gecko and element.role in BLOCKS and not element.name:
            self.ask(element, GET_PROPERTY, self._measured, "ss", LENGTH_BODY)
        elif element.interfaces & HAS_TEXT and holds_text(element):
            if self.app.gecko:
                self.ask(element, GET_PROPERTY, self._measured, "ss", LENGTH_BODY)
            else:
                self.ask(element, GET_TEXT, self._reading, "ii", TEXT_BODY)
        elif element.interfaces & HAS_VALUE and element.role in NUMBERS:
            self.ask(element, GET_PROPERTY, self._valued, "ss", VALUE_BODY)

    def place(self, element: Element) -> None:
        """Ask where an element is, and which actions it offers."""
        element.placed = True
        if element.interfaces & HAS_COMPONENT:
            self.frame(element)
        if element.interfaces & HAS_ACTION:
            self.ask(element, GET_ACTIONS, self._offering)

    def frame(self, element: Element) -> None:
        """Ask where an element is."""
        self.ask(element, EXTENTS, self._framed, "u", self.app.extents_body)

    def _framed(self, element: Element, value: Any) -> None:
        element.frame = self.app.frame(element, value)

    def _offering(self, element: Element, value: Any) -> None:
        """Note the actions; browsers leave their names out, and are asked for those of what can be acted on."""
        listed = value[:ACTIONS] if isinstance(value, list) else []
        told = [str(item[0])[:100] if isinstance(item, tuple) and item else "" for item in listed]
        element.actions = tuple(name for name in told if name.strip(";"))
        if told and not element.actions and element.role in INTERACTIVE:
            for index in range(min(len(told), UNNAMED)):
                self.ask(element, GET_NAME, self._naming, "i", encode("i", [index]))

    @staticmethod
    def _naming(element: Element, value: Any) -> None:
        if isinstance(value, str) and value:
            element.actions = (*element.actions, value[:100])

    def _measured(self, element: Element, value: Any) -> None:
        """Ask for the text, by its length."""
        if isinstance(value, int):
            size = max(0, min(value, TEXT_CHARACTERS))
            self.ask(element, GET_TEXT, partial(self._told, size), "ii", encode("ii", [0, size]))

    def _told(self, size: int, element: Element, value: Any) -> None:
        self._reading(element, value)
        if size and not value:
            self.app.stale.add(element.key)
        elif element.role in BLOCKS and isinstance(element.value, str):
            element.value = element.value.replace(EMBEDDED, " ").strip() or None

    @staticmethod
    def _reading(element: Element, value: Any) -> None:
        element.value = value if isinstance(value, str) else None

    @staticmethod
    def _valued(element: Element, value: Any) -> None:
        element.value = float(value) if isinstance(value, (int, float)) else None


EXTENTS = (COMPONENT, "GetExtents")
GET_ACTIONS = (ACTION, "GetActions")
GET_NAME = (ACTION, "GetName")
GET_TEXT = (TEXT, "GetText")
GET_PROPERTY = (PROPERTIES, "Get")
GET_CHILDREN = (ACCESSIBLE, "GetChildren")


def holds_text(element: Element) -> bool:
    """Whether the element's text is a value of its own, and not only its name once more."""
    return element.role in TEXTS or (element.has(EDITABLE) and element.role != "password-text")


def keys(value: Any) -> list[Key]:
    """The elements that an answer names."""
    listed = value if isinstance(value, list) else []
    return [item for item in listed if is_key(item)]


def is_key(item: Any) -> bool:
    """Whether a value of an answer names an element."""
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str)
        and item[1] != NULL_PATH
        and item[1].startswith("/")
    )


def _first(tell: Tell, element: Element, result: Result) -> None:
    tell(element, result[0] if isinstance(result, tuple) and result else None)
    element.retell()
