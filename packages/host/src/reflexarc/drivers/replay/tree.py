"""The accessibility tree of a played machine's desktop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from reflexarc.drivers.replay.devices import acting, rejected
from reflexarc.drivers.replay.player import Player
from reflexarc.errors import OperationTimeoutError
from reflexarc.machine.accessibility import App, Element, Found, Ref, Selector, Tree

MOST = 1000


class ReplayAccessibility:
    """Tells the elements of the script, each beside the others under its application; implements `Accessibility`.

    Notes `accessibility.action` with "role:name:action", `accessibility.set_value` with "role:name:value" and
    `accessibility.focus` with "role:name". An element stays where it is until the script says otherwise.
    """

    def __init__(self, player: Player) -> None:
        self._player = player

    async def apps(self) -> Sequence[App]:
        await self._player.inside("accessibility.apps")
        names = dict.fromkeys(element.app for element in self._player.elements)
        return [App(name, pid, frontmost=pid == 1) for pid, name in enumerate(names, 1)]

    async def dump(
        self,
        app: int | None = None,
        *,
        root: Ref | None = None,
        form: Literal["tree", "outline"] = "tree",
        max_depth: int | None = None,
        max_nodes: int | None = None,
        interactive_only: bool = False,
    ) -> Tree:
        running = [one for one in await self.apps() if one.pid == (app or 1)]
        if not running:
            raise rejected(
                self._player, "accessibility.dump", f"there is no application {app or 1}", "absent"
            )
        if root is not None and form == "tree":
            return Tree(self._live(root), "", True, "", 1)
        name, most = running[0].name, MOST if max_nodes is None else max_nodes
        shown = [
            element
            for element in ([self._live(root)] if root is not None else self._player.elements)
            if element.app == name and (element.actions or not interactive_only)
        ]
        kept, capped = shown[:most], "nodes" if len(shown) > most else ""
        if max_depth == 0:
            kept = []
        if form == "outline":
            return Tree(None, "\n".join(map(_line, kept)), not capped, capped, len(kept))
        top = Element("app", "AXApplication", "application", name=name, children=tuple(kept))
        return Tree(top, "", not capped, capped, len(kept) + 1)

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        await self._player.inside("accessibility.find")
        found = tuple(self._matching(selector))
        return Found(found[:limit], len(found) <= limit, "limit" if len(found) > limit else "")

    async def wait(self, selector: Selector, *, gone: bool = False, timeout: float = 30.0) -> Element | None:
        await self._player.inside("accessibility.wait")
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = next(self._matching(selector), None)
                    if (found is None) is gone:
                        return found
                    await self._player.advance()
        except TimeoutError as error:
            raise OperationTimeoutError(
                f"{selector} did not {'go' if gone else 'come'} within {timeout:g} s",
                machine=self._player.machine,
                operation="accessibility.wait",
            ) from error

    async def at(self, x: float, y: float) -> Element | None:
        await self._player.inside("accessibility.at")
        return next((one for one in reversed(self._player.elements) if _covers(one, x, y)), None)

    async def act(self, ref: Ref, action: str) -> None:
        await self._player.inside("accessibility.action")
        element = self._live(ref)
        if action not in element.actions:
            offered = ", ".join(element.actions) or "none"
            raise rejected(
                self._player,
                "accessibility.action",
                f"it has no action {action!r}; it has {offered}",
                "unsupported",
            )
        with acting(self._player, "accessibility.action", f"{_names(element)}:{action}"):
            pass

    async def set_value(self, ref: Ref, value: str | float | bool) -> None:
        await self._player.inside("accessibility.set_value")
        element = self._live(ref)
        with acting(self._player, "accessibility.set_value", f"{_names(element)}:{value}"):
            self._replace(ref, replace(element, value=value))

    async def focus(self, ref: Ref) -> None:
        await self._player.inside("accessibility.focus")
        element = self._live(ref)
        with acting(self._player, "accessibility.focus", _names(element)):
            self._replace(ref, replace(element, focused=True))

    async def changes(self) -> AsyncGenerator[None, None]:
        seen = -1
        while True:
            self._player.catch_up()
            if self._player.tree_version != seen:
                seen = self._player.tree_version
                yield
            else:
                await self._player.advance()

    def _matching(self, selector: Selector) -> Iterator[Element]:
        self._player.catch_up()
        return (element for element in self._player.elements if _is_meant(element, selector))

    def _live(self, ref: Ref) -> Element:
        for element in self._player.elements:
            if element.ref == ref:
                return element
        problem = f"the element {ref} is gone; read the tree again"
        raise rejected(self._player, "accessibility.action", problem, "stale_ref")

    def _replace(self, ref: Ref, element: Element) -> None:
        self._player.elements = tuple(element if one.ref == ref else one for one in self._player.elements)
        self._player.tree_version += 1


def _is_meant(element: Element, selector: Selector) -> bool:
    value = element.value_text
    asked = (
        (selector.role, selector.role in (element.role, element.native)),
        (selector.name, element.name == selector.name),
        (selector.value, value == selector.value),
        (selector.text, (selector.text or "") in element.name or (selector.text or "") in value),
    )
    return all(holds for wanted, holds in asked if wanted is not None) and selector.fits_state(element)


def _covers(element: Element, x: float, y: float) -> bool:
    area = element.area
    return area is not None and area.x <= x < area.x + area.width and area.y <= y < area.y + area.height


def _names(element: Element) -> str:
    return f"{element.native or element.role}:{element.name}"


def _line(element: Element) -> str:
    name = f" {json.dumps(element.name, ensure_ascii=False)}" if element.name else ""
    return f"- {element.native or element.role}{name} [ref={element.ref}]"
