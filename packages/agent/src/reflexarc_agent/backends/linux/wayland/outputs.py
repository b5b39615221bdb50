"""The outputs of a compositor: where each is in the space of points, and how its pixels lie.

Source: wayland.xml, "wl_output"; xdg-output.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.wayland.connection import Connection, Global
from reflexarc_agent.backends.linux.wayland.errors import WaylandError

OUTPUT, XDG_MANAGER = "wl_output", "zxdg_output_manager_v1"
OUTPUTS = 16
CURRENT = 1
RELEASE = 3
"""The version from which on an output can be given back."""

LARGEST = 1 << 16


@dataclass(frozen=True)
class Output:
    """An output: its place in points of the layout, its pixels as they are seen (turned upright), its transform."""

    object: int
    name: str
    x: int
    y: int
    w: int
    h: int
    width: int
    height: int
    transform: int

    @property
    def scale(self) -> float:
        """Pixels a point."""
        return self.width / self.w

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.w and self.y <= y < self.y + self.h


@dataclass
class _Told:
    """What an output has told so far."""

    version: int
    object: int = 0
    name: str = ""
    geometry: Tuple[int, int, int] = (0, 0, 0)
    mode: Optional[Tuple[int, int]] = None
    scale: int = 1
    position: Optional[Tuple[int, int]] = None
    size: Optional[Tuple[int, int]] = None
    extra: List[int] = field(default_factory=list)

    def plain(self, event: str, *arguments: Any) -> None:
        """Note an event of wl_output."""
        if event == "geometry":
            self.geometry = (arguments[0], arguments[1], arguments[7])
        elif event == "mode" and arguments[0] & CURRENT:
            self.mode = (arguments[1], arguments[2])
        elif event == "scale":
            self.scale = max(1, min(arguments[0], 16))
        elif event == "name":
            self.name = arguments[0][:100]

    def logical(self, event: str, *arguments: Any) -> None:
        """Note an event of zxdg_output_v1."""
        if event == "logical_position":
            self.position = arguments
        elif event == "logical_size":
            self.size = arguments
        elif event == "name":
            self.name = self.name or arguments[0][:100]

    def output(self, number: int) -> Optional[Output]:
        """The output, None where it isn't on or told nonsense."""
        if self.mode is None:
            return None
        width, height = self.mode
        x, y, transform = self.geometry
        if transform % 2:
            width, height = height, width
        w, h = self.size or (width // self.scale, height // self.scale)
        x, y = self.position or (x, y)
        sane = all(0 < length < LARGEST for length in (width, height, w, h))
        if not sane or max(abs(x), abs(y)) >= LARGEST or not 0 <= transform < 8:
            return None
        return Output(self.object, self.name or f"output-{number}", x, y, w, h, width, height, transform)


class Outputs:
    """The outputs of one compositor, as they come and go."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: Dict[int, _Told] = {}
        self.watchers: Set[Callable[[], None]] = set()
        for offered in connection.all(OUTPUT):
            self._come(offered)
        connection.on_offer = lambda interface, offered: self._come(offered) if interface == OUTPUT else None
        connection.on_withdrawal = self._gone
        connection.on_lost = self._changed
        connection.roundtrip("asking for its outputs")

    def listed(self) -> List[Output]:
        """The outputs that are on, the primary one first; raises WaylandError where none is.

        Wayland names no primary one: it is taken to be the one at the top left.
        """
        outputs = self.shown()
        if not outputs:
            raise WaylandError(f"the compositor {self._connection.name} has no output that is on")
        return outputs

    def shown(self) -> List[Output]:
        """The same, [] where none is on."""
        self._connection.alive()
        with self._connection.told:
            found = [told.output(number) for number, told in self._told.items()]
        return sorted((output for output in found if output), key=lambda o: (o.x + o.y, o.x, o.name))

    def origin(self) -> Tuple[int, int]:
        """Where points begin: the top left of the primary output, in the compositor's layout."""
        primary = self.listed()[0]
        return primary.x, primary.y

    def named(self, name: object) -> Output:
        """The output of that name, the primary one for None; raises NotOfferedError where there is none such."""
        outputs = self.listed()
        if name is None:
            return outputs[0]
        for output in outputs:
            if output.name == name:
                return output
        there = ", ".join(output.name for output in outputs)
        raise NotOfferedError(f"there is no display {str(name)[:40]!r} here; there are {there}")

    def bounds(self) -> Tuple[int, int, int, int]:
        """The rectangle around all outputs, in the compositor's layout: x, y, width and height."""
        outputs = self.listed()
        left, top = min(o.x for o in outputs), min(o.y for o in outputs)
        right, bottom = max(o.x + o.w for o in outputs), max(o.y + o.h for o in outputs)
        return left, top, right - left, bottom - top

    def _come(self, offered: Global) -> None:
        if len(self._told) >= OUTPUTS:
            return
        told = _Told(version=offered.version)

        def plain(event: str, *arguments: Any) -> None:
            told.plain(event, *arguments)
            if event == "done":
                self._changed()

        told.object = self._connection.bind(OUTPUT, offered, 4, tell=plain)
        self._told[offered.number] = told
        if self._connection.version(XDG_MANAGER):
            manager = self._connection.only(XDG_MANAGER, 3, "the places of its outputs")
            told.extra.append(
                self._connection.request(manager, "get_xdg_output", told.object, tell=told.logical)
            )

    def _gone(self, number: int) -> None:
        told = self._told.pop(number, None)
        if told is None:
            return
        for extra in told.extra:
            self._connection.destroy(extra)
        if told.version >= RELEASE:
            self._connection.destroy(told.object, "release")
        self._changed()

    def _changed(self) -> None:
        for watcher in list(self.watchers):
            watcher()


class OutputChanges:
    """Tells of changes of the outputs; `fileno` is readable when there may be one."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._before = outputs.shown()
        self._ending = threading.Lock()
        self._reader, self._writer = os.pipe()
        self._woken = self._closed = False
        outputs.watchers.add(self._wake)

    def fileno(self) -> int:
        return self._reader

    def take(self) -> bool:
        """Whether something has changed since the last call; raises WaylandError once the compositor is gone."""
        with self._ending:
            if self._woken:
                os.read(self._reader, 1)
                self._woken = False
        before, self._before = self._before, self._outputs.shown()
        return self._before != before

    def close(self) -> None:
        self._outputs.watchers.discard(self._wake)
        with self._ending:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)

    def _wake(self) -> None:
        with self._ending:
            if not self._woken and not self._closed:
                self._woken = True
                os.write(self._writer, b"\0")
