"""Being told when pixels change, by the DAMAGE extension.

Source: "The X Damage Extension", raw rectangles.
"""

from __future__ import annotations

import ctypes
import select
import time
from typing import Optional

from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import Event, library, xlib

RAW_RECTANGLES = 0
KEPT = 1000


class Changes:
    """Watches the screen, or one window, over a connection of its own; a context manager."""

    def __init__(self, name: str, window: Optional[int] = None) -> None:
        self._display = Display(name)
        self._damage = library("libXdamage.so.1")
        first, error = ctypes.c_int(), ctypes.c_int()
        if not self._damage.XDamageQueryExtension(
            self._display.handle, ctypes.byref(first), ctypes.byref(error)
        ):
            self._display.close()
            raise X11Error(f"{name} has no DAMAGE extension: changes have to be polled for")
        self._first = first.value
        self._watched = self._damage.XDamageCreate(
            self._display.handle, window or self._display.root, RAW_RECTANGLES
        )
        self._display.check("watching for changes")

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching."""
        self._display.close()

    def wait(self, seconds: float) -> list[Area]:
        """The areas that changed since the last call, as soon as there are any; [] when the time has passed."""
        end = time.monotonic() + seconds
        number = xlib().XConnectionNumber(self._display.handle)
        while True:
            changed = self._take()
            left = end - time.monotonic()
            if changed or left <= 0:
                return changed
            select.select([number], [], [], left)

    def _take(self) -> list[Area]:
        found: list[Area] = []
        event = Event()
        self._display.alive()
        while len(found) < KEPT and xlib().XPending(self._display.handle):
            xlib().XNextEvent(self._display.handle, ctypes.byref(event))
            if event.type == self._first:
                told = event.damage
                found.append(Area(told.x, told.y, told.width, told.height))
        if found:
            self._damage.XDamageSubtract(self._display.handle, self._watched, 0, 0)
            xlib().XFlush(self._display.handle)
        return found
