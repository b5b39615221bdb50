"""Actions of the tool `computer` on the accessibility tree: by `ref`, or by what an element is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError
from reflexarc.machine.accessibility import Element, Ref, Selector
from reflexarc.mcp.hub import Opened
from reflexarc.mcp.picture import picture
from reflexarc.mcp.results import fenced, result
from reflexarc.wording import counted

if TYPE_CHECKING:
    from reflexarc.mcp.computer import Wish

LOOKS = ("ax_dump", "ax_find", "ax_element_at", "ax_wait")
ACTS = ("ax_press", "ax_action", "ax_set_value", "ax_focus")
MAX_OUTLINE = 30_000
MAX_WAIT = 60.0


async def look(opened: Opened, wish: Wish) -> CallToolResult:
    """Carry out an action that only reads the tree."""
    tree = opened.session.accessibility
    if wish.action == "ax_dump":
        return await _dump(opened, wish)
    if wish.action == "ax_find":
        found = await tree.find(selector(wish))
        values = {"elements": [described(element) for element in found.elements], "complete": found.complete}
        return _told(found.elements, values)
    if wish.action == "ax_wait":
        seconds = min(MAX_WAIT, wish.duration if wish.duration is not None else 10.0)
        element = await tree.wait(selector(wish), timeout=seconds)
    else:
        element = await tree.at(*await _place(opened, wish))
    elements = () if element is None else (element,)
    return _told(elements, {"elements": [described(element) for element in elements]})


async def act(opened: Opened, wish: Wish) -> None:
    """Carry out an action on one element; raises ConfigError where the words mean none, or several."""
    ref = await _ref(opened, wish)
    tree = opened.session.accessibility
    if wish.action == "ax_press":
        await tree.act(ref, "AXPress")
    elif wish.action == "ax_focus":
        await tree.focus(ref)
    elif wish.action == "ax_set_value":
        if wish.value is None:
            raise ConfigError("ax_set_value needs value")
        await tree.set_value(ref, wish.value)
    else:
        if not wish.text:
            raise ConfigError("ax_action needs text: the name of the action, such as AXPress")
        await tree.act(ref, wish.text)


async def _dump(opened: Opened, wish: Wish) -> CallToolResult:
    read = await opened.session.accessibility.dump(root=wish.ref, form="outline")
    outline = read.outline[:MAX_OUTLINE]
    capped = read.capped or ("characters" if len(read.outline) > MAX_OUTLINE else "")
    values: dict[str, object] = {
        "outline": outline, "complete": not capped and read.complete, "capped": capped, "count": read.count,
        "text_is_untrusted": True,
    }  # fmt: skip
    words = f"{counted(read.count, 'element')}{f', capped by {capped}' if capped else ''}.\n{fenced(outline)}"
    if not wish.screenshot:
        return result(words, values)
    data, opened.scale = await asyncio.to_thread(picture, await opened.session.screen.screenshot())
    return result(words, values, data)


async def _ref(opened: Opened, wish: Wish) -> Ref:
    if wish.ref is not None:
        return wish.ref
    found = await opened.session.accessibility.find(selector(wish), limit=5)
    if len(found.elements) == 1:
        return found.elements[0].ref
    if not found.elements:
        raise ConfigError("no element on the screen is that; look with ax_dump or ax_find")
    listed = "; ".join(one_line(element) for element in found.elements)
    raise ConfigError(f"several elements are that: {listed}; name one by its ref")


def selector(wish: Wish) -> Selector:
    """What an element must be, from role, name and text; raises ConfigError where nothing is asked."""
    if not (wish.role or wish.name or wish.text):
        raise ConfigError(f"{wish.action} needs ref, or role, name or text of the element")
    return Selector(role=wish.role, name=wish.name, text=None if wish.action in ACTS else wish.text)


def described(element: Element) -> dict[str, object]:
    """An element as values, without what it doesn't have."""
    area = element.area
    told = {
        "ref": element.ref, "role": element.role, "name": element.name, "value": element.value,
        "enabled": element.enabled, "focused": element.focused, "actions": list(element.actions),
        "path": list(element.path),
        "area": None if area is None else [area.x, area.y, area.width, area.height],
    }  # fmt: skip
    return {key: value for key, value in told.items() if value not in (None, "", [])}


def one_line(element: Element) -> str:
    """An element as a line of the outline."""
    value = "" if element.value in (None, "") else f" = {str(element.value)[:80]!r}"
    return f'{element.role} "{element.name[:80]}"{value} [ref={element.ref}]'


def _told(elements: tuple[Element, ...], values: dict[str, object]) -> CallToolResult:
    values["text_is_untrusted"] = True
    lines = "\n".join(one_line(element) for element in elements)
    return result(fenced(lines) or "No element is that.", values)


async def _place(opened: Opened, wish: Wish) -> tuple[int, int]:
    from reflexarc.mcp.computer import place

    if wish.coordinate is None or len(wish.coordinate) != 2:
        raise ConfigError("ax_element_at needs coordinate, [x, y]")
    return place(opened, wish.coordinate, await opened.session.screen.screenshot())
