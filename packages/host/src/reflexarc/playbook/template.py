"""`{{ dotted.name }}`: a plain look-up, nothing else; an unknown name is an error, never an empty string."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from reflexarc.errors import PlaybookError

_SLOT = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
# A whole text whose double braces all hold a dotted name.
TEMPLATE = r"^(?:\{\{\s*[A-Za-z_][\w.-]*\s*\}\}|(?!\{\{|\}\})[\s\S])*$"


def names_in(template: str) -> list[str]:
    """The dotted names that the template looks up, in order.

    Raises PlaybookError for braces that hold anything but a dotted name.
    """
    if not re.search(TEMPLATE, template):
        raise PlaybookError(f"{{{{ }}}} holds one dotted name and nothing else; not so in {template!r}")
    return _SLOT.findall(template)


def roots_in(text: str) -> list[str]:
    """The first parts of the names that a text looks up, whatever else is in braces."""
    return [name.split(".", 1)[0] for name in _SLOT.findall(text)]


def sole_name(template: str) -> str | None:
    """The name whose value is the whole of the template, None where there is more to it."""
    found = _SLOT.fullmatch(template.strip())
    return found[1] if found else None


def render(template: str, scope: Mapping[str, object]) -> str:
    """Replace every slot by its value as text; raises PlaybookError for a name that has no value."""
    return _SLOT.sub(lambda slot: _text(look_up(slot.group(1), scope)), template)


def look_up(dotted: str, scope: Mapping[str, object]) -> object:
    """Follow a dotted name through nested mappings; raises PlaybookError where it leads nowhere."""
    value: object = scope
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = [str(key) for key in value] if isinstance(value, Mapping) else []
            near = get_close_matches(part, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise PlaybookError(f"{{{{ {dotted} }}}} has no value: there is no {part!r}{hint}")
        value = value[part]
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
