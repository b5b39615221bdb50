"""A tree as compact text: `- button "Build" [ref=e17] [focused]`, two spaces a level.

What isn't on the screen is left out, and so are containers without a name and texts that repeat their parent's.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Iterable, Iterator, NamedTuple, Optional

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.element import ENABLED, FOCUSED, Element, Key
from reflexarc_agent.backends.linux.atspi.names import STATE
from reflexarc_agent.backends.linux.atspi.nodes import Budget, Name, value
from reflexarc_agent.backends.linux.atspi.roles import INTERACTIVE, TOGGLES, WINDOWS, outline_role

TITLE_CHARACTERS = 200
CONTAINERS = frozenset(
    [
        "panel",
        "filler",
        "section",
        "grouping",
        "viewport",
        "scroll-pane",
        "split-pane",
        "root-pane",
        "layered-pane",
        "internal-frame",
        "redundant-object",
        "unknown",
        "form",
        "landmark",
        "paragraph",
        "separator",
        "extended",
        "table-row-header",
        "page",
        "scroll-bar",
        "image",
        "block-quote",
        "article",
        "list",
        "table",
        "tree",
        "tree-table",
        "list-box",
        "list-item",
        "table-row",
        "application",
    ]
)
"""Told only where they have a name; those that can be acted on all the same, where they offer that."""

FOCUSABLE = STATE["focusable"]
MARKS = ("focused", "expanded", "selected", "invalid-entry", "busy", "modal")
_MARKS = tuple((STATE[word], f" [{word}]") for word in MARKS)
_MARKED = sum(state for state, _ in _MARKS)
_REFERRED = INTERACTIVE | WINDOWS
_TEXTS = frozenset(("label", "static", "caption", "heading"))
_CELLS = frozenset(("table-cell", "tree-item"))
_CLASS = re.compile("Gtk[A-Z][A-Za-z]*")


class Line(NamedTuple):
    """What an outline says of one element; `ref` is "" where it has none there."""

    key: Key
    depth: int
    text: str
    ref: str


def outline(
    app: Application, root: Element, name: Name, budget: Budget, interactive_only: bool = False
) -> list[Line]:
    """The outline of an element and those below it, as far as the budget goes."""
    lines: list[Line] = []
    for element, depth in _told(app, root, budget, interactive_only):
        told = _line(app, element, depth, name)
        size = len(told.text) if told.text.isascii() else len(told.text.encode())
        if not budget.spend(size + 2 * depth + 1):
            break
        lines.append(told)
    return lines


def written(lines: Iterable[Line], capped: Optional[str] = None) -> str:
    """An outline as text, and at its end which bound was met."""
    listed = ["  " * line.depth + line.text for line in lines]
    return "\n".join([*listed, f"# capped: {capped}"] if capped else listed)


def _line(app: Application, element: Element, depth: int, name: Name) -> Line:
    role, title = element.role, _title(app, element)
    ref = name(element) if role in _REFERRED or element.states & FOCUSABLE else ""
    words = f"- {outline_role(role)}"
    if title:
        words += " " + quoted(title)
    if ref:
        words += f" [ref={ref}]"
    words += _marks(element)
    held = element.value
    if held is not None and role not in TOGGLES and held not in ("", element.name):
        words += f": {quoted(held) if isinstance(held, str) else f'{held:g}'}"
    return Line(element.key, depth, words, ref)


def _title(app: Application, element: Element) -> str:
    """The element's name; GTK 4 gives what has none the name of its class."""
    nameless = app.gtk4 and element.name.startswith("Gtk") and _CLASS.fullmatch(element.name)
    return "" if nameless else element.name


def quoted(text: str) -> str:
    """A text on one line, cut after 200 characters; control characters are escaped."""
    short = text if len(text) <= TITLE_CHARACTERS else text[: TITLE_CHARACTERS - 1] + "…"
    return encode_basestring(short).replace("\x7f", "\\u007f")


def _marks(element: Element) -> str:
    marks = ""
    if element.states & _MARKED:
        marks = "".join(mark for state, mark in _MARKS if element.states & state)
    if element.role in TOGGLES and value(element):
        marks += " [mixed]" if value(element) == 2 else " [checked]"
    if element.role in INTERACTIVE and not element.states & ENABLED:
        marks += " [disabled]"
    return marks + (f" [{element.child_count} children]" if element.capped else "")


def _told(
    app: Application, root: Element, budget: Budget, interactive_only: bool
) -> Iterator[tuple[Element, int]]:
    """The elements worth a line, each with its indentation."""
    stack = [(root, 0, 1, "")]
    while stack:
        element, indent, depth, above = stack.pop()
        if element is not app.root and (element.key in app.unseen or not app.shows(element)):
            continue
        title = _title(app, element)
        worth = _interactive(element) if interactive_only else _worth(element, title, above)
        if worth:
            yield element, indent
            indent, above = indent + (not interactive_only), title
        if depth > budget.depth and element.children:
            budget.capped = budget.capped or "depth"
        else:
            stack.extend((child, indent, depth + 1, above) for child in reversed(element.children))


def _interactive(element: Element) -> bool:
    if element.role in WINDOWS:
        return True
    focusable = bool(element.states & (FOCUSABLE | FOCUSED))
    return (
        element.role in INTERACTIVE and element.enabled and (focusable or element.role.endswith("menu-item"))
    )


def _worth(element: Element, title: str, above: str) -> bool:
    if element.role in CONTAINERS:
        said = bool(title) and title != above and not _repeated(element)
        return said or (isinstance(element.value, str) and element.value not in ("", above))
    if element.role in _TEXTS:
        return bool(title) and title != above
    return element.role not in _CELLS or not _repeated(element)


def _repeated(element: Element) -> bool:
    """Whether what is below an element says the same."""
    return bool(element.name) and any(
        child.name == element.name for below in element.children for child in (below, *below.children)
    )
