"""What is really in sight, of toolkits that say "showing" of what is scrolled away: Qt and GTK 4.

The frame of what a scrolled container holds tells: outside of the container's own, nothing of it is seen.
"""

from __future__ import annotations

from functools import partial
from typing import Optional

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import EXTENTS, Asking, Bounds
from reflexarc_agent.backends.linux.atspi.element import Element, Frame, Key
from reflexarc_agent.backends.linux.dbus.bus import Call, Result

CLIPPING = frozenset(
    (
        *("filler", "panel", "scroll-pane", "viewport", "section", "grouping", "layered-pane", "split-pane"),
        *("list", "list-box", "table", "tree", "tree-table", "redundant-object"),
    )
)
"""Roles of which nothing sticks out; a popup is below a button, a menu or a text, which aren't among them."""

PROBES = 64


class Sight:
    """The frames by which one application's elements are out of sight."""

    def __init__(self, app: Application, bounds: Bounds) -> None:
        self._app = app
        self._bounds = bounds
        self._framed: dict[Key, Frame] = {}

    async def look(self, seconds: float) -> None:
        """Learn what is out of sight, unless nothing has moved since that was learnt."""
        app = self._app
        if not app.overstates:
            return
        seen = app.sight
        if seen is not None and seen == (app.layouts, app.reading, await self._frames(app.probes, seconds)):
            return
        app.unseen.clear()
        layouts = app.layouts
        probes = await self._descend(seconds)
        app.probes = probes[:PROBES]
        app.sight = (layouts, app.reading, [self._framed.get(element.key) for element in app.probes])

    async def _frames(self, elements: list[Element], seconds: float) -> list[Optional[Frame]]:
        asking = Asking(self._app, self._bounds)
        for element in elements:
            # Not counted among what is read: an outline doesn't tell places.
            call = Call(*element.key, *EXTENTS, "u", names.SCREEN_BODY)
            self._app.post(asking.batch, call, partial(self._note, element.key))
        await asking.finish(seconds)
        return [self._framed.get(element.key) for element in elements]

    def _note(self, key: Key, result: Result) -> None:
        """Keep a frame as it was told; where its window is doesn't matter here."""
        value = result[0] if isinstance(result, tuple) and result else None
        if isinstance(value, tuple) and len(value) == 4 and value[2] > 0 and value[3] > 0:
            self._framed[key] = Frame(*value)

    async def _descend(self, seconds: float) -> list[Element]:
        """Level by level, ask where things are; returns the first child of each container that has something unseen."""
        app, probes = self._app, []
        level: list[tuple[Element, Optional[Frame]]] = [(app.root, None)]
        while level:
            children = [child for element, _ in level for child in element.children if app.shows(child)]
            await self._frames(children, seconds)
            below: list[tuple[Element, Optional[Frame]]] = []
            for element, clip in level:
                inner = clipped(clip, self._framed.get(element.key)) if element.role in CLIPPING else None
                shown = [child for child in element.children if app.shows(child)]
                unseen = [child for child in shown if inner and not self._seen(child, inner)]
                app.unseen.update(child.key for child in unseen)
                if shown and inner and any(self._beyond(child, inner) for child in shown):
                    probes.append(shown[0])
                below += [(child, inner) for child in shown if child.key not in app.unseen and child.children]
            level = below
        return probes

    def _seen(self, element: Element, clip: Frame) -> bool:
        """Whether something of an element is within a clip; one whose frame isn't known is taken to be."""
        frame = self._framed.get(element.key)
        part = clipped(clip, frame) if frame else None
        return part is None or bool(part.w and part.h)

    def _beyond(self, element: Element, clip: Frame) -> bool:
        frame = self._framed.get(element.key)
        return frame is not None and clipped(clip, frame) != frame


def clipped(clip: Optional[Frame], frame: Optional[Frame]) -> Optional[Frame]:
    """The part of a frame that a clip leaves, None where that isn't known."""
    if clip is None or frame is None:
        return frame or clip
    left, top = max(clip.x, frame.x), max(clip.y, frame.y)
    right, bottom = min(clip.x + clip.w, frame.x + frame.w), min(clip.y + clip.h, frame.y + frame.h)
    return Frame(left, top, max(0, right - left), max(0, bottom - top))
