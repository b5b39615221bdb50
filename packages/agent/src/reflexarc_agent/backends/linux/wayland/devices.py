"""Everything that one compositor offers: pixels, pointer, keys, windows and the clipboard."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Mapping, Optional, Tuple

from reflexarc_agent.backends.linux.errors import DisplayError, NotOfferedError
from reflexarc_agent.backends.linux.pictures import Area, Points, Shot, cropped, within
from reflexarc_agent.backends.linux.wayland.capture import Capture
from reflexarc_agent.backends.linux.wayland.clipboard import Clipboard
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.keyboard import Keyboard
from reflexarc_agent.backends.linux.wayland.outputs import Output, OutputChanges, Outputs
from reflexarc_agent.backends.linux.wayland.pointer import Pointer
from reflexarc_agent.backends.linux.wayland.seat import Seat
from reflexarc_agent.backends.linux.wayland.sway import Sway, socket_of
from reflexarc_agent.backends.linux.wayland.windows import Toplevels, Windows
from reflexarc_wire.values import Display, Rect, Window


class Wayland:
    """One compositor; a context manager that lets go of what is held down when it ends. Raises DisplayError."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("WAYLAND_DISPLAY", "")
        self.connection = Connection(socket_path(environ), name)
        try:
            self.outputs = Outputs(self.connection)
        except BaseException:
            self.connection.close()
            raise
        seat = Seat(self.connection)
        self.capture = Capture(self.connection)
        self.pointer = Pointer(self.connection, seat, self.outputs)
        self.keyboard = Keyboard(self.connection, seat)
        self.clipboard = Clipboard(self.connection, seat)
        told_at = socket_of(environ, self.connection.peer)
        self.sway = Sway(told_at) if told_at else None
        self.windows: Windows = self.sway or Toplevels(self.connection, seat)

    def __enter__(self) -> Wayland:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def alive(self) -> None:
        """Raise WaylandError where the compositor is gone."""
        self.connection.alive()

    def close(self) -> None:
        """Let go of keys and buttons, and leave the compositor; one that is gone holds nothing any more."""
        with suppress(DisplayError):
            self.release()
        self.connection.close()

    def release(self) -> None:
        """Let every key and button go that is still held down."""
        self.keyboard.release()
        self.pointer.release()

    def require(self, feature: str) -> None:
        """Raise NotOfferedError where this compositor lets nobody have the feature "screen", "input" or "clipboard"."""
        keyboard, pointer = self.keyboard.require, self.pointer.require
        parts = {
            "screen": [self.capture.require],
            "input": [keyboard, pointer],
            "clipboard": [self.clipboard.require],
        }
        for require in parts[feature]:
            require()

    def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None:
        """Click at a place of the screen."""
        self.pointer.click(x, y, button, count)

    def key(self, chord: str) -> None:
        """Press keys together."""
        self.keyboard.key(chord)

    def type(self, text: str) -> None:
        """Type a text."""
        self.keyboard.type(text)

    def lend(self, text: str) -> int:
        """Nothing, for every client gets a keymap before the keys that are pressed by it; 0."""
        return 0

    def cursor(self) -> Tuple[float, float]:
        """Refuse: no protocol tells a client where the pointer is."""
        raise NotOfferedError("Wayland doesn't tell where the pointer is")

    def displays(self) -> Tuple[Display, ...]:
        """The outputs that are on, the primary one first."""
        outputs = self.outputs.listed()
        left, top = outputs[0].x, outputs[0].y
        return tuple(
            Display(o.name, o.x - left, o.y - top, o.w, o.h, o.scale, o is outputs[0]) for o in outputs
        )

    def changes(self) -> OutputChanges:
        """Changes of the displays, from now on."""
        return OutputChanges(self.outputs)

    def window_list(self) -> Tuple[Window, ...]:
        """The windows; `frame` is missing where the compositor doesn't tell where they are."""
        left, top = self.outputs.origin()
        return tuple(
            Window(
                *(known.id, known.title, known.pid),
                Rect(frame.x - left, frame.y - top, frame.w, frame.h) if (frame := known.frame) else None,
                known.active,
            )
            for known in self.windows.listed()
        )

    def move_window(self, window: int, where: Area) -> bool:
        """Move a window's content, and where the place has a size give it that; returns whether it is seen there."""
        left, top = self.outputs.origin()
        return self.windows.move(window, Area(where.x + left, where.y + top, where.w, where.h))

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where the content of a process's window is on the screen; None where the compositor doesn't tell."""
        if self.sway is None:
            return None
        try:
            found = self.sway.place(pid, title)
            left, top = self.outputs.origin()
        except WaylandError:
            return None
        return Area(found.x - left, found.y - top, found.w, found.h) if found else None

    def shot(
        self, display: object = None, region: Optional[Points] = None, window: Optional[int] = None
    ) -> Shot:
        """A picture of a display (the primary one for None), of a region of points, or of a window where it is shown.

        Without a display a region is taken from the one that its top left is on.
        """
        if window is not None:
            if region is not None:
                raise NotOfferedError("a window is taken as a whole here: leave out `region`")
            region = self._whole(window)
        output = self._output(display, region)
        taken = self.capture.take(output)
        if region is None:
            return Shot(taken, output.scale)
        return Shot(
            cropped(taken, within(self._pixels(output, region), taken.width, taken.height)), output.scale
        )

    def _output(self, display: object, region: Optional[Points]) -> Output:
        if display is not None or region is None:
            return self.outputs.named(display)
        left, top = self.outputs.origin()
        for output in self.outputs.listed():
            if output.holds(region.x + left, region.y + top):
                return output
        raise WaylandError(f"{region.x:g},{region.y:g} is on no display")

    def _pixels(self, output: Output, region: Points) -> Area:
        left, top = self.outputs.origin()
        x, y = (region.x + left - output.x) * output.scale, (region.y + top - output.y) * output.scale
        right, bottom = x + region.w * output.scale, y + region.h * output.scale
        return Area(round(x), round(y), round(right) - round(x), round(bottom) - round(y))

    def _whole(self, window: int) -> Points:
        known = next((known for known in self.windows.listed() if known.id == window), None)
        if known is None:
            raise WaylandError(f"there is no window {window}: list them again")
        if known.frame is None:
            raise NotOfferedError("this compositor doesn't tell where windows are: leave out `window`")
        if not known.visible:
            raise WaylandError(f"window {window} is not shown, so there is no picture of it")
        left, top = self.outputs.origin()
        return Points(known.frame.x - left, known.frame.y - top, known.frame.w, known.frame.h)


def socket_path(environ: Mapping[str, str]) -> str:
    """The compositor's socket; raises WaylandError where the environment names none."""
    name, folder = environ.get("WAYLAND_DISPLAY", ""), environ.get("XDG_RUNTIME_DIR", "")
    if not name or (not os.path.isabs(name) and not folder):
        raise WaylandError("no Wayland session: WAYLAND_DISPLAY and XDG_RUNTIME_DIR aren't set")
    return os.path.join(folder, name)
