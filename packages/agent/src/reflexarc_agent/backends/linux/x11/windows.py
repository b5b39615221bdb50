"""The windows that the window manager knows.

Source: Extended Window Manager Hints (freedesktop.org).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Optional

from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import Event, xlib

CLIENT_MESSAGE = 33
REDIRECT = (1 << 20) | (1 << 19)
PAGER = 2
LISTED = 500


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

    def listed(self) -> list[Window]:
        """The windows, the oldest first; [] where no window manager runs."""
        display = self._display
        active = display.numbers(display.root, "_NET_ACTIVE_WINDOW")[:1]
        found = []
        for number in display.numbers(display.root, "_NET_CLIENT_LIST")[:LISTED]:
            try:
                size = display.attributes(number)
                x, y = display.position(number)
            except X11Error:
                display.alive()
                continue
            pid = (display.numbers(number, "_NET_WM_PID") or [0])[0]
            title = display.text(number, "_NET_WM_NAME") or display.text(number, "WM_NAME")
            frame = Area(x, y, size.width, size.height)
            found.append(Window(number, title, pid, frame, [number] == active))
        return found

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where a process's window of this title is, or its only one; None where that can't be told."""
        own = [window for window in self.listed() if window.pid == pid]
        named = [window for window in own if window.title == title] or own
        return named[0].frame if len(named) == 1 else None

    def activate(self, window: int) -> None:
        """Bring a window to the front and give it the keyboard."""
        self._tell(window, "_NET_ACTIVE_WINDOW", [PAGER, 0, 0])

    def close(self, window: int) -> None:
        """Ask a window to close."""
        self._tell(window, "_NET_CLOSE_WINDOW", [0, PAGER])

    def move(self, window: int, x: int, y: int) -> None:
        """Move a window's content to a place."""
        static_gravity, with_place = 10, (1 << 8) | (1 << 9)
        self._tell(window, "_NET_MOVERESIZE_WINDOW", [static_gravity | with_place | PAGER << 12, x, y])

    def _tell(self, window: int, message: str, data: list[int]) -> None:
        display = self._display
        with display.lock:
            display.attributes(window)
            event = Event()
            event.client.type = CLIENT_MESSAGE
            event.client.window = window
            event.client.message = display.atom(message)
            event.client.format = 32
            event.client.data = (ctypes.c_long * 5)(*data)
            xlib().XSendEvent(display.handle, display.root, 0, REDIRECT, ctypes.byref(event))
            display.check("asking the window manager")
