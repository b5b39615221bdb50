"""A guest's elements by what they are: found once, then acted on by identity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from reflexarc.errors import ConfigError, ConnectError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.accessibility import Accessibility, Element, Found, Ref, Selector
from reflexarc.machine.reach import RETRY

DRAWN = 2.0
"""Seconds for which an element is waited for that isn't there: a window may still be opening."""

SHOWN = 10
# How many are looked through where those of one application are meant.
MOST = 1000


class Elements:
    """Acts on the one element that a selector means; app: in the application of that name only.

    Where there is none, or more than one, OperationRejectedError is raised with the code `absent` or `ambiguous`, and
    nothing was sent. Other errors are those of `Accessibility`.
    """

    def __init__(self, accessibility: Accessibility, machine: str, *, app: str | None = None) -> None:
        self._accessibility = accessibility
        self._machine = machine
        self._app = app

    async def find(self, selector: Selector, *, limit: int = 20) -> Found:
        """All of them, as far as the limit goes."""
        if self._app is None:
            return await self._accessibility.find(selector, limit=limit)
        found = await self._accessibility.find(selector, limit=MOST)
        own = tuple(one for one in found.elements if one.app == self._app)
        complete = found.complete and len(own) <= limit
        return replace(found, elements=own[:limit], complete=complete)

    async def one(self, selector: Selector, *, patience: float = DRAWN) -> Element:
        """The element, waited for a moment where there is none; raises ConfigError for a selector that asks nothing."""
        if selector.is_empty:
            raise ConfigError(
                f"{self._machine}: which element is not said; say its role, name, value or text. Nothing was sent"
            )
        found = await self.find(selector)
        if not found.elements and patience > 0:
            try:
                async with asyncio.timeout(2 * patience):
                    await self._accessibility.wait(selector, timeout=patience)
            except (OperationTimeoutError, TimeoutError):
                pass
            found = await self.find(selector)
        if len(found.elements) == 1:
            return found.elements[0]
        if found.elements:
            raise self._rejected(ambiguous(selector, found.elements, found.complete), "ambiguous")
        unsure = "" if found.complete else f"; not all was searched ({found.capped or 'a bound was met'})"
        where = f"in {self._app}" if self._app is not None else "on its desktop"
        raise self._rejected(f"there is no {selector} {where}{unsure}", "absent")

    async def wait(self, selector: Selector, *, gone: bool, timeout: float) -> Element | None:
        """The first element as soon as there is one, None as soon as there is none with `gone`.

        A guest that doesn't answer yet, or has no desktop yet, is waited for, too: it may be starting.
        """
        end, left = time.monotonic() + timeout, timeout
        while True:
            try:
                return await self._accessibility.wait(selector, gone=gone, timeout=left)
            except (ConnectError, OperationRejectedError) as error:
                if isinstance(error, OperationRejectedError) and error.code != "not_authorized":
                    raise
                left = round(end - time.monotonic() - RETRY, 2)
                if left <= 0:
                    raise
            await asyncio.sleep(RETRY)

    async def press(self, selector: Selector) -> Element:
        """Press it; the element as it was before."""
        return await self.act(selector, "AXPress")

    async def act(self, selector: Selector, action: str) -> Element:
        """Perform one of its actions."""
        return await self._on(selector, lambda ref: self._accessibility.act(ref, action))

    async def set_value(self, selector: Selector, value: str | float | bool) -> Element:
        """Set its value; the element as it was before."""
        return await self._on(selector, lambda ref: self._accessibility.set_value(ref, value))

    async def again(self, element: Element) -> Element | None:
        """The element as it is now, None where it is gone."""
        try:
            tree = await self._accessibility.dump(root=element.ref, max_depth=0, max_nodes=1)
        except OperationRejectedError as error:
            if error.code != "stale_ref":
                raise
            return None
        return replace(tree.root, path=element.path, children=()) if tree.root else None

    async def focus(self, selector: Selector) -> Element:
        """Give it the focus."""
        return await self._on(selector, self._accessibility.focus)

    async def _on(self, selector: Selector, perform: Callable[[Ref], Awaitable[None]]) -> Element:
        """Find it and act; where it was replaced in between, which is told before anything happens, find it anew."""
        element = await self.one(selector)
        try:
            await perform(element.ref)
        except OperationRejectedError as error:
            if error.code != "stale_ref":
                raise
            element = await self.one(selector)
            await perform(element.ref)
        return element

    def _rejected(self, problem: str, code: str) -> OperationRejectedError:
        return OperationRejectedError(
            problem, machine=self._machine, operation="accessibility.find", code=code
        )


def ambiguous(selector: Selector, found: Sequence[Element], complete: bool) -> str:
    """What to say of a selector that means several elements."""
    listed = "; ".join(in_words(element) for element in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    count = f"{len(found)}{'' if complete else ' or more'}"
    return f"there are {count} elements {selector}: {listed}{more}; say more of the one that is meant"


def in_words(element: Element) -> str:
    """An element with where it stands: `push button "OK" in Files > Save as`."""
    name = f' "{element.name[:80]}"' if element.name else ""
    within = f" in {' > '.join(name[:40] for name in element.path[-3:])}" if element.path else ""
    return f"{element.native or element.role}{name}{within}"
