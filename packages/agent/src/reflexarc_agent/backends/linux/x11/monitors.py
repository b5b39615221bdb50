"""The monitors of an X screen, and being told when they change, by the RandR extension.

Source: "The X Resize, Rotate and Reflect Extension", 1.5, "RRGetMonitors", "RRScreenChangeNotify".
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Optional

from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import Event, library, xlib

LISTED = 64
SCREEN_CHANGES, CRTC_CHANGES, OUTPUT_CHANGES = 1, 2, 4


@dataclass(frozen=True)
class Monitor:
    """A monitor: its place on the X screen in pixels."""

    name: str
    area: Area
    primary: bool


def monitors(display: Display) -> list[Monitor]:
    """The monitors, the primary one first; the whole screen as one where the server tells of none."""
    with display.lock:
        found = _listed(display)
    if not found:
        size = display.attributes(display.root)
        found = [Monitor(display.name, Area(0, 0, size.width, size.height), True)]
    if not any(monitor.primary for monitor in found):
        found[0] = Monitor(found[0].name, found[0].area, True)
    return sorted(found, key=lambda monitor: not monitor.primary)


def _listed(display: Display) -> list[Monitor]:
    try:
        randr = library("libXrandr.so.2")
    except X11Error:
        return []
    if _first_event(display) is None:
        return []
    count = ctypes.c_int()
    told = randr.XRRGetMonitors(display.handle, display.root, 1, ctypes.byref(count))
    display.check("asking for the monitors")
    if not told:
        return []
    try:
        return [
            Monitor(
                display.atom_name(told[at].name),
                Area(told[at].x, told[at].y, told[at].width, told[at].height),
                bool(told[at].primary),
            )
            for at in range(min(count.value, LISTED))
        ]
    finally:
        randr.XRRFreeMonitors(told)


def _first_event(display: Display) -> Optional[int]:
    """The number of RandR's first event, None where the server doesn't have RandR."""
    first, error = ctypes.c_int(), ctypes.c_int()
    known = library("libXrandr.so.2").XRRQueryExtension(
        display.handle, ctypes.byref(first), ctypes.byref(error)
    )
    return first.value if known else None


class MonitorChanges:
    """Tells of changes, over a connection of its own; `fileno` is readable when there may be one."""

    def __init__(self, name: str) -> None:
        """Raise X11Error where the server can't tell."""
        self._display = Display(name)
        try:
            self._first = _first_event(self._display)
            if self._first is None:
                raise X11Error(f"{name} has no RANDR extension: changes of its monitors aren't told")
            wanted = SCREEN_CHANGES | CRTC_CHANGES | OUTPUT_CHANGES
            library("libXrandr.so.2").XRRSelectInput(self._display.handle, self._display.root, wanted)
            self._display.check("watching the monitors")
        except X11Error:
            self._display.close()
            raise

    def fileno(self) -> int:
        return int(xlib().XConnectionNumber(self._display.handle))

    def take(self) -> bool:
        """Whether something has changed since the last call; raises X11Error once the server is gone."""
        event, changed = Event(), False
        with self._display.lock:
            while xlib().XPending(self._display.handle):
                xlib().XNextEvent(self._display.handle, ctypes.byref(event))
                changed |= event.type in (self._first, (self._first or 0) + 1)
            self._display.alive()
        return changed

    def close(self) -> None:
        self._display.close()
