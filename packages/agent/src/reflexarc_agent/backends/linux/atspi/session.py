"""The operations on the tree that one connection asks for; plain values in, plain objects out."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Optional, Union

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.acting import Actor, Delivery, Value
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ANSWER, is_key, keys
from reflexarc_agent.backends.linux.atspi.desktop import Desktop
from reflexarc_agent.backends.linux.atspi.element import Element
from reflexarc_agent.backends.linux.atspi.errors import StaleRefError, TimedOutError, UnavailableError
from reflexarc_agent.backends.linux.atspi.nodes import Budget, ax_actions, node, tree
from reflexarc_agent.backends.linux.atspi.outline import outline
from reflexarc_agent.backends.linux.atspi.reading import Reading
from reflexarc_agent.backends.linux.atspi.refs import Named, Refs
from reflexarc_agent.backends.linux.atspi.selecting import RULE, Selector, match_rule, matching, path
from reflexarc_agent.backends.linux.dbus.bus import Call, call_of
from reflexarc_agent.backends.linux.dbus.errors import DBusError

Target = Union[str, int]
Ref = Union[str, int]

MATCHES, FOUND = 1000, 50
"""How many an application's own search may find, and how many of these are looked at closely."""

POLL = 0.25
"""Seconds after which a wait looks again without an event, for toolkits that send none."""


class Outlined(NamedTuple):
    """An outline that was told: of what, the references in it, and the answer."""

    asked: tuple[object, ...]
    named: list[Named]
    told: dict[str, Any]


class Session:
    """The accessibility operations of one connection, with its references."""

    def __init__(self, desktop: Desktop, actor: Actor, refs: Optional[Refs] = None) -> None:
        self._desktop = desktop
        self._actor = actor
        self.refs = Refs() if refs is None else refs
        self._last: Optional[Outlined] = None

    async def apps(self) -> list[dict[str, Any]]:
        """The applications on the bus."""
        listed = await self._desktop.applications()
        windows = await asyncio.gather(*(self._desktop.windows(app) for app in listed if app.toolkit))
        active = {
            key[0] for shown in windows for key in (w.key for w in shown if w.has(names.STATE["active"]))
        }
        return [{"name": app.name, "pid": app.pid, "frontmost": app.owner in active} for app in listed]

    async def dump(
        self,
        target: Target = "frontmost",
        root: Optional[Ref] = None,
        max_depth: int = 64,
        max_nodes: int = 20_000,
        deadline: float = 5.0,
        outlined: bool = False,
        interactive_only: bool = False,
    ) -> dict[str, Any]:
        """A tree or its outline; the answer says whether it is complete, else what capped it.

        Raises TimedOutError where the application answered nothing at all.
        """
        app, top = await self._top(target, root, deadline)
        await self._current(app, deadline)
        top = app.root if root is None else app.elements.get(top.key) or _gone(root)
        budget = Budget(depth=max(0, min(max_depth, 64)), nodes=max(1, min(max_nodes, 20_000)))
        if outlined:
            return self._outlined(app, top, budget, interactive_only)
        await self._desktop.mirrors.placed(app, deadline)
        return self._told({"tree": tree(top, self.refs.name, budget)}, app, budget)

    def _told(self, told: dict[str, Any], app: Application, budget: Budget) -> dict[str, Any]:
        capped = app.capped or budget.capped
        return {**told, "complete": capped is None, "capped": capped, "count": budget.count}

    def _outlined(
        self, app: Application, top: Element, budget: Budget, interactive_only: bool
    ) -> dict[str, Any]:
        """The outline; the last one once more where nothing has changed since."""
        asked = (app, top, budget.depth, budget.nodes, interactive_only, app.events, app.reads)
        last = self._last
        if last and last.asked == asked and self.refs.again(last.named):
            return dict(last.told)
        named: list[Named] = []

        def name(element: Element) -> str:
            named.append(self.refs.named(element))
            return named[-1].ref

        text = outline(app, top, name, budget, interactive_only)
        told = self._told({"outline": text}, app, budget)
        self._last = Outlined(asked, named, told)
        return dict(told)

    async def find(
        self, selector: Selector, target: Target = "frontmost", limit: int = 20, deadline: float = 5.0
    ) -> dict[str, Any]:
        """The nodes that are meant, each with the names of its ancestors as `path`."""
        app, _ = await self._top(target, None, deadline)
        found = await self._collected(app, selector) if app.read_at is None else None
        if found is None:
            await self._current(app, deadline)
            found = list(matching(app, selector))
        capped = app.capped or ("limit" if len(found) > limit else None)
        found = found[:limit]
        await self._placed(app, found)
        nodes = [{**node(element, self.refs.name), "path": path(element)} for element in found]
        return {"nodes": nodes, "complete": capped is None, "capped": capped}

    async def wait(
        self, selector: Selector, gone: bool = False, timeout: float = 10.0, target: Optional[Target] = None
    ) -> dict[str, Any]:
        """Wait until such an element is there (its node is the answer), or with `gone` until none is.

        Without a target every application is looked at. Raises TimedOutError when `timeout` seconds passed.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while True:
            seen = self._desktop.changes
            for app in await self._targets(target):
                found = await self._first(app, selector, max(0.1, min(ANSWER, end - loop.time())))
                if found and not gone:
                    await self._placed(app, [found])
                    return {"node": node(found, self.refs.name)}
                if found:
                    break
            else:
                if gone:
                    return {"node": None}
            left = end - loop.time()
            if left <= 0:
                raise TimedOutError(f"{selector} was not {'gone' if gone else 'there'} within {timeout:g} s")
            await self._desktop.change(seen, loop.time() + min(POLL, left))

    async def element_at(self, x: float, y: float, target: Target = "frontmost") -> dict[str, Any]:
        """The smallest element at a point of the screen; the node is None where nothing is."""
        app, _ = await self._top(target, None, ANSWER)
        await self._current(app, 5.0)
        await self._desktop.mirrors.placed(app)
        found = await self._hit(app, x, y)
        return {"node": node(found, self.refs.name) if found else None}

    async def actions(self, ref: Ref) -> list[str]:
        """The names of the actions that an element offers."""
        _, element = await self._actor.resolve(self.refs.find(ref))
        return list(ax_actions(tuple(await self._actor.offered(element))))

    async def act(self, ref: Ref, action: str) -> Delivery:
        """Perform an action ("AXPress", or the toolkit's own name) on an element."""
        return await self._actor.act(self.refs.find(ref), action)

    async def set_value(self, ref: Ref, value: Value) -> Delivery:
        """Set what an element holds."""
        return await self._actor.set_value(self.refs.find(ref), value)

    async def focus(self, ref: Ref) -> Delivery:
        """Give an element the keyboard focus."""
        return await self._actor.focus(self.refs.find(ref))

    # -- which application, which elements

    async def _top(self, target: Target, root: Optional[Ref], deadline: float) -> tuple[Application, Element]:
        if root is not None:
            named = self.refs.find(root)
            app = self._desktop.of(named.key)
            return (app, Element(named.key)) if app else _gone(root)
        if isinstance(target, int):
            app = await self._desktop.application(target)
        else:
            app = await self._desktop.frontmost()
        return app, app.root

    async def _targets(self, target: Optional[Target]) -> list[Application]:
        if target is None:
            return [app for app in await self._desktop.applications() if app.toolkit]
        try:
            return [(await self._top(target, None, ANSWER))[0]]
        except UnavailableError:
            return []  # it may come yet

    async def _current(self, app: Application, seconds: float) -> None:
        await self._desktop.mirrors.current(app, seconds)
        if app.hung:
            raise TimedOutError(f"{app.name or 'the application'} (process {app.pid}) doesn't answer")

    async def _first(self, app: Application, selector: Selector, seconds: float) -> Optional[Element]:
        await self._desktop.mirrors.current(app, seconds, patient=False)
        return None if app.hung else next(matching(app, selector), None)

    async def _placed(self, app: Application, elements: list[Element]) -> None:
        reading = Reading(app, self._desktop.bounds)
        await reading.places((element for element in elements if app.shows(element)), ANSWER)

    async def _collected(self, app: Application, selector: Selector) -> Optional[list[Element]]:
        """What the application's own search finds, without reading its tree; None where that can't tell.

        Only a search for role and name: the ancestors that a path needs are asked for with the hits.
        """
        if not selector.role or selector.name is None or app.from_window or app.toolkit == "Qt":
            return None
        call = Call(*app.root.key, names.COLLECTION, "GetMatches", RULE, match_rule(selector, MATCHES))
        try:
            answer = await app.ask(call, ANSWER)
        except DBusError:
            return None
        reading = Reading(app, self._desktop.bounds)
        hits = [Element(key) for key in keys(answer)]
        await reading.parts(hits, (), ANSWER)
        found = [element for element in hits if selector.matches(element)][:FOUND]
        ancestors = await asyncio.gather(*(self._ancestors(app, element) for element in found))
        await reading.parts([above for line in ancestors for above in line], (), ANSWER)
        return found or None

    async def _ancestors(self, app: Application, element: Element) -> list[Element]:
        """Hang an element that was found without its tree below its ancestors; returns those, not described yet."""
        found: list[Element] = []
        below = element
        while len(found) < 64:
            call = call_of(*below.key, names.PROPERTIES + ".Get", "ss", names.ACCESSIBLE, "Parent")
            try:
                key = await app.ask(call, ANSWER)
            except DBusError:
                break
            if not is_key(key) or key == app.root.key:
                break
            below.parent = Element(key)
            below = below.parent
            found.append(below)
        return found

    async def _hit(self, app: Application, x: float, y: float) -> Optional[Element]:
        """The deepest showing element whose frame holds the point, the last one drawn first."""
        found: Optional[Element] = None
        for element in app.root.walk():
            if element.frame and element.frame.holds(x, y) and app.shows(element):
                area = element.frame.w * element.frame.h
                if found is None or found.frame is None or area <= found.frame.w * found.frame.h:
                    found = element
        return found


def _gone(ref: Ref) -> Any:
    raise StaleRefError(f"{ref} is gone: dump again")
