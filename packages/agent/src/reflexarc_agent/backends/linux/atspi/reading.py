"""Reading a tree the fastest way its toolkit allows: its cache where that is complete, pipelined calls elsewhere.

Never Properties.GetAll: Qt 5.15 crashes on it.
"""

from __future__ import annotations

from typing import Any, Iterable

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import GET_CHILDREN, GET_PROPERTY, Asking, Bounds, keys
from reflexarc_agent.backends.linux.atspi.cache import NAME_CHARACTERS, cached_elements
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.stretch import Stretch

GET_ITEMS = (names.CACHE, "GetItems")
GET_ROLE = (names.ACCESSIBLE, "GetRole")
GET_STATE = (names.ACCESSIBLE, "GetState")
INVALID, DEFUNCT = 0, names.STATE["defunct"]
AGAIN = 8
"""How often an element that tells no role is read again."""

LONG = frozenset(("tree", "tree-table", "table", "list", "list-box", "application"))


class Reading(Asking):
    """One read of an application's tree, or of parts of it, into its mirror."""

    def __init__(self, app: Application, bounds: Bounds) -> None:
        super().__init__(app, bounds)
        self._left: dict[Key, int] = {}
        self._items: list[Any] = []
        self._skimmed: set[Key] = set()
        self._uncounted: set[Key] = set()

    async def whole(self, seconds: float) -> None:
        """Read the tree from its root; what isn't reached in time is missing, and `capped` says "time"."""
        root = self.app.plant()
        if self.app.gtk4:
            self._skim(root, names.ROOT_PATH)
            await self.finish(seconds)
        cache = Element((root.key[0], names.CACHE_PATH))
        self.ask(cache, GET_ITEMS, self._filled)
        await self.finish(seconds)
        cached = cached_elements(self._items, self.bounds.nodes)
        if root.key in cached:
            self._take_over(root, cached)
        else:
            self.explore(root)
        await self.finish(seconds)

    async def parts(
        self,
        described: Iterable[Element],
        regrown: Iterable[Element],
        seconds: float,
        doubtful: Iterable[Element] = (),
    ) -> None:
        """Read again what is said of some elements, the children of others, and of some only if their number changed.

        GTK 3 doesn't tell of children that are packed into a box, but of the box having grown.
        """
        for element in described:
            element.placed = False
            self.describe(element)
        for element in regrown:
            if self.app.browser and element.role not in LONG:
                self.ask(element, GET_CHILDREN, self._regrown)
            else:
                self.ask(element, GET_PROPERTY, self._counted, "ss", names.COUNT_BODY)
        for element in doubtful:
            self.ask(element, GET_PROPERTY, self._counted_again, "ss", names.COUNT_BODY)
        await self.finish(seconds)

    async def places(self, elements: Iterable[Element], seconds: float) -> None:
        """Read where some elements are, and which actions they offer."""
        for element in elements:
            self.place(element)
        await self.finish(seconds)

    def _filled(self, _: Element, value: Any) -> None:
        self._items = value if isinstance(value, list) else []

    def _take_over(self, root: Element, cached: dict[Key, Element]) -> None:
        """Hang the cached elements below the root, and ask for children that the cache lacks."""
        first = cached[root.key]
        for field in ("child_count", "interfaces", "name", "number", "states"):
            setattr(root, field, getattr(first, field))
        stack = [(root, first.children, 0)]
        while stack:
            element, listed, depth = stack.pop()
            if element is not root:
                element.children = []
            self.contents(element)
            if self._lacks_children(element, listed):
                self._ask_children(element)
            for child in listed:
                if child.key not in self.app.elements and self._room(depth):
                    self._hang(child, element)
                    stack.append((child, child.children, depth + 1))

    def _lacks_children(self, element: Element, listed: list[Element]) -> bool:
        """GTK 4 counts children that it lists nowhere, and lists some that it doesn't count."""
        if self.app.gtk4:
            return bool(element.child_count and not listed)
        return element.child_count != len(listed)

    def _skim(self, above: Element, _: Any) -> None:
        """Ask for children and nothing else, which makes the application fill its cache."""
        self.ask(above, GET_CHILDREN, self._skim_children)

    def _skim_children(self, _: Element, value: Any) -> None:
        for key in keys(value):
            if key not in self._skimmed and len(self._skimmed) < self.bounds.nodes:
                self._skimmed.add(key)
                self._skim(Element(key), None)

    def explore(self, element: Element) -> None:
        """Read everything of an element that isn't known yet, and of those below it."""
        self._left[element.key] = 4
        self.describe(element)
        if self.app.browser:
            self._uncounted.add(element.key)
        else:
            self.ask(element, GET_PROPERTY, self._explored, "ss", names.COUNT_BODY)

    def describe(self, element: Element) -> None:
        """Read role, states and name, then the contents."""
        self._left.setdefault(element.key, 3)
        self.ask(element, GET_ROLE, self._role)
        self.ask(element, GET_STATE, self._states)
        self.ask(element, GET_PROPERTY, self._name, "ss", names.NAME_BODY)

    def _role(self, element: Element, value: Any) -> None:
        element.number = value if isinstance(value, int) else -1
        if element.number <= INVALID:
            self._doubt(element)
        if element.key in self._uncounted:
            self._uncounted.discard(element.key)
            self._list(element)
        self._heard(element)

    def _doubt(self, element: Element) -> None:
        """Have an element read again, some times: one that is just being made, or ended, tells nothing true."""
        seen = self.app.unmade[element.key] = self.app.unmade.get(element.key, 0) + 1
        if seen <= AGAIN:
            self.app.stale.add(element.key)
            self.app.stale_children.add(element.key)
            if element.parent:
                self.app.stale_children.add(element.parent.key)

    def _list(self, element: Element) -> None:
        """Ask a browser's element for its children; only those that can be very many are counted before."""
        if element.role in LONG:
            self.ask(element, GET_PROPERTY, self._explored, "ss", names.COUNT_BODY)
        else:
            self.ask(element, GET_CHILDREN, self._listed)

    def _states(self, element: Element, value: Any) -> None:
        element.states = names.state_bits(value) if isinstance(value, tuple) else 0
        if element.has(DEFUNCT):
            self._doubt(element)
        self._heard(element)

    def _name(self, element: Element, value: Any) -> None:
        element.name = value[:NAME_CHARACTERS] if isinstance(value, str) else ""
        self._heard(element)

    def _listed(self, element: Element, value: Any) -> None:
        self._regrown(element, value)
        self._heard(element)

    def _regrown(self, element: Element, value: Any) -> None:
        element.child_count = len(value) if isinstance(value, list) else 0
        if element.child_count or element.children:
            self._children(element, value)

    def _explored(self, element: Element, value: Any) -> None:
        self._counted(element, value)
        self._heard(element)

    def _heard(self, element: Element) -> None:
        left = self._left[element.key] = self._left[element.key] - 1
        if not left:
            del self._left[element.key]
            self.contents(element)

    def _counted(self, element: Element, value: Any) -> None:
        element.child_count = value if isinstance(value, int) else 0
        if element.child_count or element.children:
            self._ask_children(element)

    def _counted_again(self, element: Element, value: Any) -> None:
        if value != len(element.children) and not element.capped:
            self._counted(element, value)

    def _ask_children(self, element: Element) -> None:
        """Ask for the children; of a list too long to read, for those in sight."""
        element.capped = element.child_count > self.bounds.children
        if element.capped:
            Stretch(self, element, self._grow).find()
        else:
            self.ask(element, GET_CHILDREN, self._children)

    def _children(self, element: Element, value: Any) -> None:
        listed = keys(value)
        element.capped = len(listed) > self.bounds.children
        self._grow(element, listed[: self.bounds.children])

    def _grow(self, element: Element, listed: list[Key]) -> None:
        """Let these be the children: keep those there were, explore new ones, drop the rest."""
        before = {child.key: child for child in element.children}
        kept = []
        for key in dict.fromkeys(listed):
            child = before.pop(key, None) or self._child(element, key)
            if child:
                kept.append(child)
        for gone in before.values():
            self.app.drop(gone)
        element.children = kept
        element.retell()

    def _child(self, parent: Element, key: Key) -> Element | None:
        """A new child, or one moved here; None where it is an ancestor, or there is no room for it."""
        known = self.app.elements.get(key)
        if known:
            return self._move(known, parent)
        if not self._room(sum(1 for _ in parent.ancestors())):
            return None
        child = Element(key)
        child.parent = parent
        self.app.elements[key] = child
        self.explore(child)
        return child

    def _move(self, known: Element, parent: Element) -> Element | None:
        if known is parent or known in parent.ancestors():
            return None
        if known.parent and known in known.parent.children:
            known.parent.children.remove(known)
            known.parent.retell()
        known.parent = parent
        return known

    def _hang(self, child: Element, parent: Element) -> None:
        child.parent = parent
        parent.children.append(child)
        self.app.elements[child.key] = child

    def _room(self, depth: int) -> bool:
        room = depth < self.bounds.depth and len(self.app.elements) < self.bounds.nodes
        self.full |= not room
        return room
