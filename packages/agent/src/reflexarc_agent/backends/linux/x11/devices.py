"""Everything that one X display offers: pixels, pointer, keys and windows."""

from __future__ import annotations

from contextlib import suppress
from typing import Optional

from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.x11.capture import Capture
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.keyboard import Keyboard
from reflexarc_agent.backends.linux.x11.pointer import Pointer
from reflexarc_agent.backends.linux.x11.windows import Windows


class X11:
    """One display; a context manager that lets go of what is held down when it ends. Raises X11Error."""

    def __init__(self, name: str) -> None:
        self.display = Display(name)
        self.capture = Capture(self.display)
        self.pointer = Pointer(self.display)
        self.keyboard = Keyboard(self.display)
        self.windows = Windows(self.display)

    def __enter__(self) -> X11:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def alive(self) -> None:
        """Raise X11Error where the server is gone."""
        self.display.alive()

    def close(self) -> None:
        """Let go of keys and buttons, and leave the display; one that is gone holds nothing any more."""
        with suppress(X11Error):
            self.display.alive()
            self.keyboard.close()
            self.pointer.release()
        self.capture.close()
        self.display.close()

    def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None:
        """Click at a place of the screen."""
        self.pointer.click(x, y, button, count)

    def key(self, chord: str) -> None:
        """Press keys together."""
        self.keyboard.key(chord)

    def type(self, text: str) -> None:
        """Type a text."""
        self.keyboard.type(text)

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where a process's window is on the screen."""
        return self.windows.place(pid, title)
