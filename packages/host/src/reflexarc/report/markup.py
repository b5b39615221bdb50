"""HTML from values: whatever isn't markup already is escaped, so that nothing can be forgotten."""

from __future__ import annotations

from html import escape
from typing import TypeAlias

_VOID = frozenset({"img", "meta", "rect"})


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | None


def element(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element; `class_` is the attribute class, `aria_label` aria-label; None and False leave out, True is bare."""
    written = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    if name in _VOID:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Children one after the other, escaped unless they are markup."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None))


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'
