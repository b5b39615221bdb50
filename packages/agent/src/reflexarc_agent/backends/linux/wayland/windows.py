"""The windows of a compositor, by the protocol for task bars, which knows neither places nor processes.

Source: wlr-foreign-toplevel-management-unstable-v1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Dict, Optional, Protocol, Tuple

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.seat import Seat

MANAGER = "zwlr_foreign_toplevel_manager_v1"
WHAT = "a list of its windows"
LISTED, TITLE = 500, 1000
ACTIVATED = 2
EFFECT = 2.0
"""Seconds that a window is given to do as it was told."""


@dataclass(frozen=True)
class Window:
    """A top-level window; `frame` is the place of its content in the compositor's layout, where that is told."""

    id: int
    title: str
    pid: Optional[int] = None
    frame: Optional[Area] = None
    active: bool = False
    visible: bool = True


class Windows(Protocol):
    """Lists and arranges windows; of the acts each returns whether its effect was seen."""

    def require(self) -> None:
        """Raise NotOfferedError where nobody is let know the windows."""

    def listed(self) -> list[Window]: ...

    def activate(self, window: int) -> bool: ...

    def close(self, window: int) -> bool: ...

    def move(self, window: int, where: Area) -> bool: ...


class Toplevels:
    """The windows as a task bar sees them; raises NotOfferedError where the compositor lets nobody."""

    def __init__(self, connection: Connection, seat: Seat) -> None:
        self._connection = connection
        self._seat = seat
        self._listening = False
        self._count = 0
        self._shown: Dict[int, Window] = {}
        self._told: Dict[int, Tuple[str, bool]] = {}

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lists its windows for nobody."""
        if not self._connection.version(MANAGER):
            self._connection.only(MANAGER, 3, WHAT)

    def listed(self) -> list[Window]:
        """The windows, in the order in which they were told of."""
        with self._connection.lock:
            self._listen()
            self._connection.roundtrip("asking for its windows")
            with self._connection.told:
                return sorted(self._shown.values(), key=lambda window: window.id)

    def activate(self, window: int) -> bool:
        """Give a window the keyboard."""
        with self._connection.lock:
            self._connection.request(self._object(window), "activate", self._seat.object(WHAT))
            return self._seen(lambda: (known := self._window(window)) is not None and known.active)

    def close(self, window: int) -> bool:
        """Ask a window to close."""
        with self._connection.lock:
            self._connection.request(self._object(window), "close")
            return self._seen(lambda: self._window(window) is None)

    def move(self, window: int, where: Area) -> bool:
        """Refuse: nobody but the compositor places windows."""
        raise NotOfferedError("this compositor lets nobody move windows")

    def _listen(self) -> None:
        if not self._listening:
            self._connection.only(MANAGER, 3, WHAT, self._managed)
            self._listening = True
            self._connection.roundtrip("asking for its windows")

    def _window(self, number: int) -> Optional[Window]:
        with self._connection.told:
            return next((window for window in self._shown.values() if window.id == number), None)

    def _object(self, number: int) -> int:
        self.listed()
        with self._connection.told:
            for made, window in self._shown.items():
                if window.id == number:
                    return made
        raise WaylandError(f"there is no window {number}: list them again")

    def _seen(self, holds: Any) -> bool:
        try:
            self._connection.wait(holds, "arranging a window", EFFECT)
        except WaylandError:
            self._connection.alive()
            return False
        return True

    def _managed(self, event: str, *arguments: int) -> None:
        if event != "toplevel":
            return
        made = arguments[0]
        if len(self._told) >= LISTED:
            self._connection.destroy(made)
            return
        self._count += 1
        number = self._count
        self._told[made] = ("", False)
        self._connection.listen(made, lambda event, *told: self._noted(made, number, event, *told))

    def _noted(self, made: int, number: int, event: str, *arguments: Any) -> None:
        title, active = self._told[made]
        if event == "title":
            self._told[made] = (arguments[0][:TITLE], active)
        elif event == "state":
            self._told[made] = (title, ACTIVATED in _numbers(arguments[0]))
        elif event == "done":
            self._shown[made] = Window(number, title, active=active)
        elif event == "closed":
            self._told.pop(made)
            self._shown.pop(made, None)
            self._connection.destroy(made)


def _numbers(data: bytes) -> Tuple[int, ...]:
    return struct.unpack(f"={len(data) // 4}I", data[: len(data) // 4 * 4])
