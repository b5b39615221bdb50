"""Looking into a guest's accessibility tree beside the other senses; an agent that hangs holds up none of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from reflexarc.errors import ReflexarcError
from reflexarc.machine.accessibility import Accessibility, Element, Ref, Selector
from reflexarc.machine.reach import RETRY
from reflexarc.observation import Sighting
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.tree import MAX_NAME, TreeReading

# Seconds that a look may take while others wait for it, and while nobody does. An application that hangs costs an agent
# about one; what is found in the first is still fresh enough for a precondition.
LOOK, PATIENCE = 1.5, 5.0
# Seconds between two looks at a tree that changes all the time: for elements, and for phases.
GAP, PHASE_GAP = 0.05, 1.0
MOST = 50
KEPT_REFS = 50_000


class TreeSearch:
    """Looks for what is wanted in the tree, at once where it changes.

    wanted: selectors by the keys under which observations tell of them. sightings: what came of them; nothing of
    those of which nobody could tell. tree: what recognisers ask of it, None while nobody answers. changed_at: when
    something was last found to be other than before. answers: whether the guest's agent did, None before it was asked.
    moved_at: when the tree last told of any change. tell: called when there is news.
    """

    def __init__(
        self, accessibility: Accessibility, recognisers: Recognisers, tell: Callable[[], None]
    ) -> None:
        self.wanted: Mapping[str, Selector] = {}
        self.sightings: Mapping[str, Sighting] = {}
        self.tree: TreeReading | None = None
        self.changed_at = float("-inf")
        self.moved_at = float("-inf")
        self.answers: bool | None = None
        self._accessibility = accessibility
        self._recognisers = recognisers
        self._tell = tell
        self._began = float("-inf")
        self._known: dict[str, tuple[object, ...]] = {}
        self._refs: dict[Ref, None] = {}
        self._stale = asyncio.Event()

    def seek(self, wanted: Mapping[str, Selector]) -> None:
        """Look for these from now on."""
        if wanted != self.wanted:
            self.wanted = wanted
            self.sightings = {key: one for key, one in self.sightings.items() if key in wanted}
            self._known = {key: known for key, known in self._known.items() if key in wanted}
            self._stale.set()

    def learn(self, recognisers: Recognisers) -> None:
        """Ask what these recognisers need from now on."""
        self._recognisers = recognisers
        self.tree = None
        self._stale.set()

    def forget(self) -> None:
        """What was found is no evidence any more: the machine was off."""
        self.sightings, self.tree, self.answers = {}, None, None
        self._began = time.monotonic()
        self._stale.set()

    def told(self, ref: Ref) -> bool:
        """Tell whether a reference was found while this watches; those of earlier processes mean nothing here."""
        return ref in self._refs

    async def fresh(self, *, doubting: bool, phases: bool) -> None:
        """Look once, for a moment at most; where the agent is known not to answer, only in doubt.

        phases: what recognisers ask is asked, too.
        """
        if doubting or (self.answers is not False and (self.wanted or phases)):
            await self.look(LOOK, phases=doubting or phases)

    async def watch(self) -> None:
        """Look again and again, at once where the tree changes."""
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                self._stale.clear()
                began = time.monotonic()
                phases = self.tree is None or began - self.tree.at >= PHASE_GAP
                before = self.tree
                await self.look(PATIENCE, phases=phases)
                if self.wanted or _said(self.tree) != _said(before):
                    self._tell()
                if listening.done():
                    listening.result()
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY):
                        await self._stale.wait()
                await asyncio.sleep(max(0.0, began + GAP - time.monotonic()))
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def look(self, seconds: float, *, phases: bool) -> None:
        """Look once; what can't be told within so many seconds is not known then."""
        began = time.monotonic()
        found: dict[str, Sighting] = {}
        tree, answers = (None if phases else self.tree), False
        try:
            async with asyncio.timeout(seconds):
                for key, selector in self.wanted.items():
                    sighting = await self._sight(key, selector)
                    if sighting is not None:
                        found[key] = sighting
                if phases:
                    tree = await self._read(began)
            answers = True
        except (TimeoutError, ReflexarcError):
            tree = None
        if began >= self._began:
            self._began, self.sightings, self.tree, self.answers = began, found, tree, answers
            self._note(found)

    async def outline(self, most: int) -> str:
        """The outline of the application in front, cut to so many characters; empty where nobody answers."""
        if self.answers is False:
            return ""
        try:
            async with asyncio.timeout(LOOK):
                read = await self._accessibility.dump(form="outline")
        except (TimeoutError, ReflexarcError):
            return ""
        if len(read.outline) <= most:
            return read.outline
        return read.outline[:most].rpartition("\n")[0] + "\n# capped: there is more"

    async def _listen(self) -> None:
        while True:
            with suppress(ReflexarcError):
                async for _ in self._accessibility.changes():
                    self.moved_at = time.monotonic()
                    self._stale.set()
            await asyncio.sleep(RETRY)

    async def _sight(self, key: str, selector: Selector) -> Sighting | None:
        at = time.monotonic()
        found = await self._accessibility.find(selector)
        if not found.elements:
            return Sighting(key, at) if found.complete else None
        self._keep(found.elements)
        first = found.elements[0]
        return Sighting(
            key,
            at,
            len(found.elements),
            first.ref,
            (first.native or first.role)[:MAX_NAME],
            first.name[:MAX_NAME],
            first.value_text[:MAX_NAME],
        )

    async def _read(self, at: float) -> TreeReading | None:
        """What recognisers ask of the tree; None where something of it can't be told."""
        apps = await self._accessibility.apps()
        found = {}
        for selector in self._recognisers.selectors:
            read = await self._accessibility.find(selector, limit=MOST)
            if not read.elements and not read.complete:
                return None
            found[selector] = read.elements
        return TreeReading(at, tuple(app.name for app in apps), found)

    def _keep(self, elements: tuple[Element, ...]) -> None:
        for element in elements:
            self._refs.pop(element.ref, None)
            self._refs[element.ref] = None
        while len(self._refs) > KEPT_REFS:
            del self._refs[next(iter(self._refs))]

    def _note(self, found: Mapping[str, Sighting]) -> None:
        for key, one in found.items():
            said = one.count, one.ref, one.role, one.name, one.value
            if self._known.get(key, said) != said:
                self.changed_at = one.at
            self._known[key] = said


def _said(tree: TreeReading | None) -> object:
    """What of a reading is compared with an earlier one."""
    return None if tree is None else (tree.apps, tree.found)
