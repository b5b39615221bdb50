"""The operations on the tree that one connection asks for; plain values in, plain objects out."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.acting import Actor, Delivery, Value
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import ANSWER
from reflexarc_agent.backends.linux.atspi.collecting import Collected, collected
from reflexarc_agent.backends.linux.atspi.desktop import ACTIVE, Desktop
from reflexarc_agent.backends.linux.atspi.differences import (
    GONE,
    Dump,
    Dumps,
    outline_difference,
    tree_difference,
)
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.errors import StaleRefError, TimedOutError, UnavailableError
from reflexarc_agent.backends.linux.atspi.nodes import Budget, ax_actions, node, tree
from reflexarc_agent.backends.linux.atspi.outline import Line, outline, written
from reflexarc_agent.backends.linux.atspi.reading import Reading
from reflexarc_agent.backends.linux.atspi.refs import Named, Refs
from reflexarc_agent.backends.linux.atspi.selecting import Selector, matching, path
from reflexarc_agent.backends.linux.atspi.telling import Telling

Target = Union[str, int]
Ref = Union[str, int]

Looks = Dict[Application, "asyncio.Future[Optional[Element]]"]
"""Looks at applications that are under way."""

POLL = 0.25
"""Seconds after which a wait looks again without an event, for toolkits that send none."""


CUT = ("time", "nodes", "bytes")
"""Bounds at which a dump ends anywhere."""


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
        self._dumps = Dumps()
        self._telling = Telling(self.refs)

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
        since: Optional[Union[str, int]] = None,
    ) -> dict[str, Any]:
        """A tree or its outline; the answer says whether it is complete, else what capped it.

        With `since`, the number of an earlier dump of the same: what has changed, and `removed`; the whole where
        that dump isn't kept. Raises TimedOutError where the application answered nothing at all.
        """
        app, top = await self._top(target, root, deadline)
        await self._current(app, deadline)
        top = app.root if root is None else app.elements.get(top.key) or _gone(root)
        budget = Budget(depth=max(0, min(max_depth, 64)), nodes=max(1, min(max_nodes, 20_000)))
        if outlined:
            await self._desktop.mirrors.sighted(app, deadline)
            return self._outlined(app, top, budget, interactive_only, since)
        await self._desktop.mirrors.placed(app, deadline)
        whole = self._telling.whole(app, top, budget) or tree(top, self.refs.name, budget)
        asked = (top.key, budget.depth)
        earlier = self._earlier(since, asked, app, budget)
        told = self._told({"tree": whole}, app, budget, Dump(asked, whole, budget.count))
        if earlier and isinstance(earlier.told, dict):
            told["tree"], told["removed"] = tree_difference(earlier.told, whole)
            told["since"] = since
        return told

    def _told(self, told: dict[str, Any], app: Application, budget: Budget, dump: Dump) -> dict[str, Any]:
        capped = app.capped or budget.capped
        number = self._dumps.keep(dump._replace(asked=(*dump.asked, capped)))
        return {**told, "dump": number, "complete": capped is None, "capped": capped, "count": budget.count}

    def _earlier(
        self, since: Optional[Union[str, int]], asked: tuple[object, ...], app: Application, budget: Budget
    ) -> Optional[Dump]:
        """The earlier dump, where both end at the same bound: of one cut short it can't be told what is gone."""
        capped = app.capped or budget.capped
        return None if capped in CUT else self._dumps.find(since, (*asked, capped))

    def _outlined(
        self,
        app: Application,
        top: Element,
        budget: Budget,
        interactive_only: bool,
        since: Optional[Union[str, int]],
    ) -> dict[str, Any]:
        """The outline, or its difference; the last one once more where nothing has changed since."""
        what = (top.key, budget.depth, interactive_only)
        asked = (app, *what, budget.nodes, app.events, app.reads, app.layouts)
        last = self._last
        if since is None and last and last.asked == asked and self.refs.again(last.named):
            return dict(last.told)
        named: list[Named] = []

        def name(element: Element) -> str:
            named.append(self.refs.named(element))
            return named[-1].ref

        lines = outline(app, top, name, budget, interactive_only)
        earlier = self._earlier(since, what, app, budget)
        text = written(lines, budget.capped)
        told = self._told({"outline": text}, app, budget, Dump(what, lines, budget.count))
        self._last = Outlined(asked, named, told)
        if earlier and isinstance(earlier.told, list):
            return {**told, **_outline_since(earlier.told, lines, budget.capped), "since": since}
        return dict(told)

    async def find(
        self,
        selector: Selector,
        target: Optional[Target] = "frontmost",
        limit: int = 20,
        deadline: float = 5.0,
    ) -> dict[str, Any]:
        """The nodes that are meant, each with the names of its ancestors as `path`.

        Without a target those of every application, the frontmost first; of a hung one it says "time".
        """
        if target is None:
            found, capped = await self._found_anywhere(selector, limit, deadline)
        else:
            app, _ = await self._top(target, None, deadline)
            found, capped = await self._found(app, selector, limit, deadline)
        nodes = [{**node(element, self.refs.name), "path": path(element)} for element in found]
        return {"nodes": nodes, "complete": capped is None, "capped": capped}

    async def _found(
        self, app: Application, selector: Selector, limit: int, deadline: float
    ) -> tuple[list[Element], Optional[str]]:
        """Those of one application, and which bound was met."""
        collected = await self._collected(app, selector, limit)
        if collected:
            found, capped = collected.elements, None if collected.complete else "limit"
        else:
            await self._current(app, deadline)
            found = list(islice(matching(app, selector), limit + 1))
            capped = app.capped or ("limit" if len(found) > limit else None)
            found = found[:limit]
        await self._placed(app, found)
        return found, capped

    async def _found_anywhere(
        self, selector: Selector, limit: int, deadline: float
    ) -> tuple[list[Element], Optional[str]]:
        listed = await self._desktop.applications()
        able = [app for app in listed if app.toolkit and not app.hung]
        windows = await asyncio.gather(*map(self._desktop.windows, able))
        fronts = [app for app, shown in zip(able, windows) if any(window.has(ACTIVE) for window in shown)]
        found: list[Element] = []
        capped = "time" if len(able) < len(listed) else None
        for apps in (fronts, [app for app in able if app not in fronts]):
            if len(found) >= limit:
                return found[:limit], "limit"
            told = await asyncio.gather(
                *(self._found(app, selector, limit, deadline) for app in apps), return_exceptions=True
            )
            for answer in told:
                if isinstance(answer, TimedOutError):
                    capped = capped or "time"
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    found, capped = [*found, *answer[0]], capped or answer[1]
        return found[:limit], capped or ("limit" if len(found) > limit else None)

    async def wait(
        self, selector: Selector, gone: bool = False, timeout: float = 10.0, target: Optional[Target] = None
    ) -> dict[str, Any]:
        """Wait until such an element is there (its node is the answer), or with `gone` until none is.

        Without a target every application is looked at. Raises TimedOutError when `timeout` seconds passed.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        looks: Looks = {}
        while True:
            seen = self._desktop.changes
            apps = await self._targets(target)
            for app in apps:
                seconds = max(0.1, min(app.patience, end - loop.time()))
                looks[app] = looks.get(app) or asyncio.ensure_future(self._first(app, selector, seconds))
            found = await _seen(looks)
            if found and not gone:
                app, element = found
                await self._placed(app, [element])
                return {"node": node(element, self.refs.name)}
            if gone and not (found or looks or any(app.unknown for app in apps)):
                return {"node": None}
            left = end - loop.time()
            if left <= 0:
                raise TimedOutError(
                    f"{selector} was not {'gone' if gone else 'there'} within {timeout:.3g} s"
                )
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

    # -- events

    def listen(self, tell: Callable[[str, Optional[str]], None]) -> Callable[[], None]:
        """Have the kind of each change told, with the reference of its element where it has one; returns the end of it.

        Both are called on the event loop.
        """

        def told(kind: str, key: Optional[Key]) -> None:
            tell(kind, self.refs.known(key) if key else None)

        self._desktop.listeners.add(told)
        return lambda: self._desktop.listeners.discard(told)

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
        collected = await self._collected(app, selector, 1)
        if collected and collected.elements:
            return collected.elements[0]
        await self._desktop.mirrors.current(app, seconds, patient=False)
        return None if app.hung else next(matching(app, selector), None)

    async def _collected(self, app: Application, selector: Selector, limit: int) -> Optional[Collected]:
        """What the application's own search finds, where its tree wasn't read yet."""
        if app.read_at is not None or app.hung:
            return None
        return await collected(app, selector, limit, self._desktop.bounds)

    async def _placed(self, app: Application, elements: list[Element]) -> None:
        reading = Reading(app, self._desktop.bounds)
        await reading.places((element for element in elements if app.shows(element)), ANSWER)

    async def _hit(self, app: Application, x: float, y: float) -> Optional[Element]:
        """The deepest showing element whose frame holds the point, the last one drawn first."""
        found: Optional[Element] = None
        for element in app.root.walk():
            if element.frame and element.frame.holds(x, y) and app.shows(element):
                area = element.frame.w * element.frame.h
                if found is None or found.frame is None or area <= found.frame.w * found.frame.h:
                    found = element
        return found


async def _seen(looks: Looks) -> Optional[tuple[Application, Element]]:
    """What the first successful look has found; looks that take longer than `POLL` stay, and hold up no other."""
    while looks:
        await asyncio.wait(set(looks.values()), timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
        over = [app for app, look in looks.items() if look.done()]
        for app in over:
            element = looks.pop(app).result()
            if element:
                return app, element
        if not over:
            break
    return None


def _outline_since(earlier: list[Line], now: list[Line], capped: Optional[str]) -> dict[str, Any]:
    lines, gone = outline_difference(earlier, now)
    text = written(lines, capped)
    if gone:
        text += ("\n" if text else "") + "# removed: " + ", ".join(gone[:GONE])
    removed = [line.ref for line in earlier if line.ref in gone] if gone else []
    return {"outline": text, "removed": removed}


def _gone(ref: Ref) -> Any:
    raise StaleRefError(f"{ref} is gone: dump again")
