"""The windows that the window manager knows.

Source: Extended Window Manager Hints (freedesktop.org).
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from typing import Callable, Optional

from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import NoManagerError, X11Error
from reflexarc_agent.backends.linux.x11.libraries import Event, xlib

CLIENT_MESSAGE = 33
REDIRECT = (1 << 20) | (1 << 19)
PAGER = 2
LISTED = 500
TITLE_CHARACTERS = 1000
VIEWABLE = 2
EFFECT, LOOK = 1.0, 0.01
"""Seconds that the window manager is given, and between two looks whether it has done it."""


@dataclass(frozen=True)
class Window:
    """A top-level window: the place of its content, without the window manager's frame."""

    id: int
    title: str
    pid: int
    frame: Area
    active: bool


class Windows:
    """Lists and arranges the top-level windows of one display."""

    def __init__(self, display: Display) -> None:
        self._display = display

    @property
    def manager(self) -> str:
        """The window manager's name, "" where none runs.

        Source: EWMH, "_NET_SUPPORTING_WM_CHECK": the window that it names names itself.
        """
        display = self._display
        check = display.numbers(display.root, "_NET_SUPPORTING_WM_CHECK")[:1]
        if not check or display.numbers(check[0], "_NET_SUPPORTING_WM_CHECK")[:1] != check:
            return ""
        return display.text(check[0], "_NET_WM_NAME")[:TITLE_CHARACTERS] or "a window manager"

    def listed(self) -> list[Window]:
        """The windows, the oldest first; without a window manager those that are on the screen."""
        display = self._display
        active = display.numbers(display.root, "_NET_ACTIVE_WINDOW")[:1]
        managed = display.numbers(display.root, "_NET_CLIENT_LIST") if self.manager else self._unmanaged()
        found = []
        for number in managed[:LISTED]:
            try:
                size = display.attributes(number)
                x, y = display.position(number)
            except X11Error:
                display.alive()
                continue
            pid = (display.numbers(number, "_NET_WM_PID") or [0])[0]
            title = display.text(number, "_NET_WM_NAME") or display.text(number, "WM_NAME")
            frame = Area(x, y, size.width, size.height)
            found.append(Window(number, title[:TITLE_CHARACTERS], pid, frame, [number] == active))
        return found

    def _unmanaged(self) -> list[int]:
        """The shown children of the root that have a title."""
        found = []
        for number in self._display.children(self._display.root)[:LISTED]:
            try:
                shown = self._display.attributes(number)
            except X11Error:
                self._display.alive()
                continue
            titled = self._display.text(number, "_NET_WM_NAME") or self._display.text(number, "WM_NAME")
            if titled and shown.map_state == VIEWABLE and not shown.override_redirect:
                found.append(number)
        return found

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where a process's window of this title is, or its only one; None where that can't be told."""
        own = [window for window in self.listed() if window.pid == pid]
        named = [window for window in own if window.title == title] or own
        return named[0].frame if len(named) == 1 else None

    def activate(self, window: int) -> bool:
        """Bring a window to the front and give it the keyboard; False where it isn't in front after a second."""
        self._tell(window, "_NET_ACTIVE_WINDOW", [PAGER, 0, 0])
        display = self._display
        return _soon(lambda: display.numbers(display.root, "_NET_ACTIVE_WINDOW")[:1] == [window])

    def close(self, window: int) -> bool:
        """Ask a window to close; False where it is still there after a second, as one that asks first is."""
        self._tell(window, "_NET_CLOSE_WINDOW", [0, PAGER])
        return _soon(lambda: window not in self._display.numbers(self._display.root, "_NET_CLIENT_LIST"))

    def move(self, window: int, place: Area) -> bool:
        """Move a window's content to a place, and where that has a size give it that.

        False where it is elsewhere after a second: a window manager may know better.
        """
        static_gravity, with_place, with_size = 10, (1 << 8) | (1 << 9), (1 << 10) | (1 << 11)
        sized = place.w > 0 and place.h > 0
        flags = static_gravity | with_place | (with_size if sized else 0) | PAGER << 12
        self._tell(window, "_NET_MOVERESIZE_WINDOW", [flags, place.x, place.y, place.w, place.h])

        def there() -> bool:
            size = self._display.attributes(window)
            wanted = (place.w, place.h) if sized else (size.width, size.height)
            return self._display.position(window) == (place.x, place.y) and wanted == (
                size.width,
                size.height,
            )

        return _soon(there)

    def _tell(self, window: int, message: str, data: list[int]) -> None:
        """Ask the window manager; raises NoManagerError where none would do it."""
        display = self._display
        manager = self.manager
        if not manager:
            raise NoManagerError(
                f"no window manager runs on {display.name}, and only that arranges windows: start one"
            )
        if display.atom(message) not in display.numbers(display.root, "_NET_SUPPORTED"):
            raise NoManagerError(f"{manager} on {display.name} doesn't offer {message}")
        if window not in display.numbers(display.root, "_NET_CLIENT_LIST"):
            raise X11Error(f"there is no window {window:#x} on {display.name}: list them again")
        with display.lock:
            display.attributes(window)
            event = Event()
            event.client.type = CLIENT_MESSAGE
            event.client.window = window
            event.client.message = display.atom(message)
            event.client.format = 32
            event.client.data = (ctypes.c_long * 5)(*data[:5])
            xlib().XSendEvent(display.handle, display.root, 0, REDIRECT, ctypes.byref(event))
            display.check("asking the window manager")


def _soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + EFFECT
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK)
    return True
