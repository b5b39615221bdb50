"""Where things are: what isn't known yet, and after a change what is beside the changed and beside its ancestors.

What is in an element of the same place as before, and of which no event came, has the same place too.
"""

from __future__ import annotations

from typing import Any

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.asking import Asking, Bounds
from reflexarc_agent.backends.linux.atspi.element import Element, Key
from reflexarc_agent.backends.linux.atspi.names import HAS_COMPONENT


class Placing(Asking):
    """Learns the places and actions of all elements that show, where they aren't known or may be others."""

    def __init__(self, app: Application, bounds: Bounds) -> None:
        super().__init__(app, bounds)
        self._opened: set[Key] = set()
        self._asked: set[Key] = set()

    async def look(self, seconds: float) -> None:
        """Ask, for so many seconds at most."""
        app = self.app
        if app.stale_frames:
            app.displace()
        for element in app.unplaced():
            self._asked.add(element.key)
            self.place(element)
        for element in app.known(app.shifted):
            for around in (element, *element.ancestors()):
                self._look_into(around)
        for element in app.known(app.moved):
            self._look_at(element)
        app.shifted.clear()
        app.moved.clear()
        await self.finish(seconds)

    def _look_into(self, element: Element) -> None:
        """Ask where the children are; of one that has no place of its own, where those in it are."""
        if element.key not in self._opened:
            self._opened.add(element.key)
            for child in element.children:
                self._look_at(child)

    def _look_at(self, element: Element) -> None:
        if not (self.app.shows(element) and element.interfaces & HAS_COMPONENT):
            self._look_into(element)
        elif element.key not in self._asked:
            self._asked.add(element.key)
            self.frame(element)

    def _framed(self, element: Element, value: Any) -> None:
        before = element.frame
        super()._framed(element, value)
        if element.frame is None or element.frame != before:
            self._look_into(element)
