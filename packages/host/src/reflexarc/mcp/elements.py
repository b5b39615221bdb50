"""Actions of the tool `computer` on the accessibility tree: by `ref`, or by what an element is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import ceil
from typing import TYPE_CHECKING, Protocol, TypeVar

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError, OperationRejectedError
from reflexarc.machine.accessibility import Area, Element, Selector
from reflexarc.mcp import veil
from reflexarc.mcp.hub import Opened
from reflexarc.mcp.picture import picture
from reflexarc.mcp.results import cleaned, fenced, result
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
        found = await opened.session.ax.find(selector(wish))
        return _told(opened, found.elements, {"complete": found.complete})
    if wish.action == "ax_wait":
        seconds = min(MAX_WAIT, wish.duration if wish.duration is not None else 10.0)
        element = await tree.wait(selector(wish), timeout=seconds)
        # A run that was given a secret may have begun meanwhile.
        veil.draw(opened.session)
    else:
        element = await tree.at(*await _place(opened, wish))
    return _told(opened, () if element is None else (element,), {})


async def act(opened: Opened, wish: Wish) -> None:
    """Carry out an action on one element: that of the ref, or the only one that is what the words say."""
    if wish.ref is not None:
        await _perform(opened.session.accessibility, wish.ref, wish)
        return
    try:
        await _perform(opened.session.ax, selector(wish), wish)
    except OperationRejectedError as error:
        if error.code == "ambiguous":
            # What it quotes is cut to a length already, and with it perhaps a secret.
            said = f"{error.machine}: it means several elements; say more" if veil.is_drawn() else str(error)
            error.args = (f"{said}, or name it by the ref that ax_find tells",)
        raise


T = TypeVar("T", contravariant=True)


class _Hands(Protocol[T]):
    """What acts on elements, told by T."""

    def act(self, element: T, action: str, /) -> Awaitable[object]: ...

    def set_value(self, element: T, value: str | float | bool, /) -> Awaitable[object]: ...

    def focus(self, element: T, /) -> Awaitable[object]: ...


async def _perform(hands: _Hands[T], element: T, wish: Wish) -> None:
    if wish.action == "ax_press":
        await hands.act(element, "AXPress")
    elif wish.action == "ax_focus":
        await hands.focus(element)
    elif wish.action == "ax_set_value":
        if wish.value is None:
            raise ConfigError("ax_set_value needs value")
        await hands.set_value(element, wish.value)
    else:
        if not wish.text:
            raise ConfigError("ax_action needs text: the name of the action, such as AXPress")
        await hands.act(element, wish.text)


async def _dump(opened: Opened, wish: Wish) -> CallToolResult:
    read = await opened.session.accessibility.dump(root=wish.ref, form="outline")
    outline = cleaned(read.outline)[:MAX_OUTLINE]
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


def selector(wish: Wish) -> Selector:
    """What an element must be, from role, name and text; raises ConfigError where nothing is asked."""
    text = None if wish.action == "ax_action" else wish.text
    wanted = Selector(role=wish.role or None, name=wish.name or None, text=text or None)
    if wanted.is_empty:
        words = "role or name" if wish.action == "ax_action" else "role, name or text"
        raise ConfigError(f"{wish.action} needs ref, or {words} of the element")
    return wanted


def described(opened: Opened, element: Element) -> dict[str, object]:
    """An element as values, without what it doesn't have; its area is in the image that the client saw last."""
    told = {
        "ref": element.ref, "role": element.role, "name": element.name, "value": element.value,
        "enabled": element.enabled, "focused": element.focused, "actions": list(element.actions),
        "path": list(element.path), "area": _in_image(opened, element.area),
    }  # fmt: skip
    return {key: value for key, value in told.items() if value not in (None, "", [])}


def _in_image(opened: Opened, area: Area | None) -> list[int] | None:
    """What shows of an area, None where nothing does, or no image was seen; a point is a pixel of the screen."""
    scale = opened.scale
    if scale is None or area is None:
        return None
    left, right = max(0.0, area.x), min(float(scale.right), area.x + area.width)
    top, bottom = max(0.0, area.y), min(float(scale.bottom), area.y + area.height)
    if not (left < right and top < bottom):
        return None
    x, y = scale.to_picture(int(left), int(top))
    to_x, to_y = scale.to_picture(ceil(right) - 1, ceil(bottom) - 1)
    return [x, y, to_x - x + 1, to_y - y + 1]


def one_line(element: Element) -> str:
    """An element as a line of the outline."""
    value = "" if element.value in (None, "") else f" = {cleaned(str(element.value))[:80]!r}"
    return f'{element.role} "{cleaned(element.name)[:80]}"{value} [ref={element.ref}]'


def _told(opened: Opened, elements: tuple[Element, ...], more: dict[str, object]) -> CallToolResult:
    listed = [described(opened, element) for element in elements]
    lines = "\n".join(one_line(element) for element in elements)
    values = {"elements": listed, **more, "text_is_untrusted": True}
    return result(fenced(lines) or "No element is that.", values)


async def _place(opened: Opened, wish: Wish) -> tuple[int, int]:
    from reflexarc.mcp.computer import place

    if wish.coordinate is None or len(wish.coordinate) != 2:
        raise ConfigError("ax_element_at needs coordinate, [x, y]")
    return place(opened, wish.coordinate, await opened.session.screen.screenshot())
