"""Everything that one X display offers: pixels, pointer, keys, windows and the clipboard."""

from __future__ import annotations

from contextlib import suppress
from typing import Optional, Tuple

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.pictures import Area, Points, Shot
from reflexarc_agent.backends.linux.x11.capture import Capture
from reflexarc_agent.backends.linux.x11.clipboard import Clipboard
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.keyboard import Keyboard
from reflexarc_agent.backends.linux.x11.monitors import MonitorChanges, monitors
from reflexarc_agent.backends.linux.x11.pointer import Pointer
from reflexarc_agent.backends.linux.x11.windows import Windows
from reflexarc_wire import values


class X11:
    """One display; a context manager that lets go of what is held down when it ends. Raises X11Error."""

    def __init__(self, name: str) -> None:
        self.display = Display(name)
        self.capture = Capture(self.display)
        self.pointer = Pointer(self.display)
        self.keyboard = Keyboard(self.display)
        self.windows = Windows(self.display)
        self._clipboard: Optional[Clipboard] = None
        self._pulse: Optional[Display] = None

    def __enter__(self) -> X11:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def alive(self) -> None:
        """Raise X11Error where the server is gone."""
        self.display.alive()

    def answer(self) -> None:
        """Wait until the server answers, over a connection of its own: long typing would hold up the other."""
        if self._pulse is None:
            self._pulse = Display(self.display.name)
        self._pulse.check("asking whether it is there")

    def close(self) -> None:
        """Let go of keys and buttons, and leave the display; one that is gone holds nothing any more."""
        with suppress(X11Error):
            self.display.alive()
            self.keyboard.close()
            self.pointer.release()
        for other in (self._clipboard, self._pulse):
            if other is not None:
                other.close()
        self.capture.close()
        self.display.close()

    def require(self, feature: str) -> None:
        """Nothing: an X server offers every feature."""

    @property
    def clipboard(self) -> Clipboard:
        """The clipboard, over a connection of its own that is opened when first needed, and again when it has ended."""
        with self.display.lock:
            self.display.alive()
            if self._clipboard is None or not self._clipboard.alive:
                self._clipboard = Clipboard(self.display.name)
            return self._clipboard

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
        """Have keys for the characters of a text; tells what `Keyboard.lend` does."""
        return self.keyboard.lend(text)

    def cursor(self) -> Tuple[float, float]:
        """Where the pointer is."""
        return self.display.pointer()[:2]

    def displays(self) -> Tuple[values.Display, ...]:
        """The monitors, the primary one first."""
        return tuple(
            values.Display(
                known.name, known.area.x, known.area.y, known.area.w, known.area.h, 1.0, known.primary
            )
            for known in monitors(self.display)
        )

    def changes(self) -> MonitorChanges:
        """Changes of the displays, from now on."""
        return MonitorChanges(self.display.name)

    def shot(
        self, display: object = None, region: Optional[Points] = None, window: Optional[int] = None
    ) -> Shot:
        """A picture of the screen, of a display, of a region, or of a window, in which a region lies then."""
        area = Area(*map(round, region)) if region else None
        if display not in (None, self.display.name):
            whole = self._monitor(display)
            area = area or whole
        return Shot(self.capture.take(window, area), 1.0)

    def _monitor(self, name: object) -> Area:
        there = {known.name: known.area for known in monitors(self.display)}
        if not isinstance(name, str) or name not in there:
            raise NotOfferedError(f"the displays here are {', '.join(there)}, not {str(name)[:40]!r}")
        return there[name]

    def window_list(self) -> Tuple[values.Window, ...]:
        """The windows, the oldest first."""
        return tuple(
            values.Window(
                *(known.id, known.title, known.pid or None),
                values.Rect(known.frame.x, known.frame.y, known.frame.w, known.frame.h),
                known.active,
            )
            for known in self.windows.listed()
        )

    def move_window(self, window: int, where: Area) -> bool:
        """Move a window's content, and where the place has a size give it that; returns whether it is seen there."""
        return self.windows.move(window, where)

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where a process's window is on the screen."""
        return self.windows.place(pid, title)
