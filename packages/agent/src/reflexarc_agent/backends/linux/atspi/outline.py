"""A tree as compact text: `- button "Build" [ref=e17] [focused]`, two spaces a level.

What isn't on the screen is left out, and so are containers without a name and texts that repeat their parent's.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Iterator

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.element import ENABLED, FOCUSED, Element
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


def outline(
    app: Application, root: Element, name: Name, budget: Budget, interactive_only: bool = False
) -> str:
    """The outline of an element and those below it, as far as the budget goes."""
    lines: list[str] = []
    for element, depth in _told(app, root, budget, interactive_only):
        text = "  " * depth + line(element, name)
        if not budget.spend(len(text) + 1 if text.isascii() else len(text.encode()) + 1):
            break
        lines.append(text)
    if budget.capped:
        lines.append(f"# capped: {budget.capped}")
    return "\n".join(lines)


def line(element: Element, name: Name) -> str:
    """One element's line, without indentation."""
    role = element.role
    words = f"- {outline_role(role)}"
    if element.name:
        words += " " + quoted(element.name)
    if role in _REFERRED or element.states & FOCUSABLE:
        words += f" [ref={name(element)}]"
    words += _marks(element)
    held = element.value
    if held is not None and role not in TOGGLES and held not in ("", element.name):
        words += f": {quoted(held) if isinstance(held, str) else f'{held:g}'}"
    return words


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
        if element is not app.root and not app.shows(element):
            continue
        worth = _interactive(element) if interactive_only else _worth(element, above)
        if worth:
            yield element, indent
            indent, above = indent + (not interactive_only), element.name
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


def _worth(element: Element, above: str) -> bool:
    if element.role in CONTAINERS:
        repeated = any(
            child.name == element.name for below in element.children for child in (below, *below.children)
        )
        return bool(element.name) and element.name != above and not repeated
    if element.role in _TEXTS:
        return bool(element.name) and element.name != above
    return True
