"""A connection to an X server, safe to use from several threads."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_uint, c_ulong, c_void_p
from types import TracebackType
from typing import Any, Optional

from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import Attributes, ErrorEvent, xlib

PROPERTY_BYTES = 1 << 16
NAME_BYTES = 200
ANY_TYPE = 0

_ERROR_HANDLER = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(ErrorEvent))
_LOST_HANDLER = ctypes.CFUNCTYPE(c_int, c_void_p)
_EXIT_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
_errors: dict[int, int] = {}


def _note_error(display: int, event: Any) -> int:
    """Keep the error for `Display.check`; Xlib's own handler would end the process."""
    _errors[display] = event.contents.error
    return 0


def _note_loss(display: int) -> int:
    """Keep that the server is lost; Xlib's own handler would end the process."""
    _errors[display] = -1
    return 0


def _stay(display: int, data: int) -> None:
    """Once a loss is noted Xlib ends the process, unless this returns."""


_ON_ERROR, _ON_LOSS, _ON_EXIT = _ERROR_HANDLER(_note_error), _LOST_HANDLER(_note_loss), _EXIT_HANDLER(_stay)


class Display:
    """An X server's first screen; a context manager. Hold `lock` around calls that belong together."""

    def __init__(self, name: str) -> None:
        x = xlib()
        x.XInitThreads()
        x.XSetErrorHandler(_ON_ERROR)
        x.XSetIOErrorHandler(_ON_LOSS)
        self.name = name
        self.lock = threading.RLock()
        opened = x.XOpenDisplay(name.encode())
        if not opened:
            raise X11Error(
                f"the X server {name!r} can't be reached: is DISPLAY right, and XAUTHORITY readable?"
            )
        self.handle: int = opened
        _errors.pop(self.handle, None)
        if hasattr(x, "XSetIOErrorExitHandler"):
            x.XSetIOErrorExitHandler.argtypes = (c_void_p, _EXIT_HANDLER, c_void_p)
            x.XSetIOErrorExitHandler(self.handle, _ON_EXIT, None)
        self.root: int = x.XDefaultRootWindow(self.handle)
        self._closed = False

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        with self.lock:
            if not self._closed:
                self._closed = True
                if _errors.get(self.handle) != -1:
                    xlib().XCloseDisplay(self.handle)

    def check(self, doing: str) -> None:
        """Wait until the server has done everything; raises X11Error where it refused something."""
        self.alive()
        xlib().XSync(self.handle, 0)
        error = _errors.get(self.handle, 0)
        if error > 0:
            del _errors[self.handle]
            text = ctypes.create_string_buffer(200)
            xlib().XGetErrorText(self.handle, error, text, 200)
            raise X11Error(f"{doing} was refused by {self.name}: {text.value.decode('latin-1')}")
        self.alive()

    def alive(self) -> None:
        """Raise X11Error where the connection has ended."""
        if self._closed or _errors.get(self.handle) == -1:
            raise X11Error(f"the connection to the X server {self.name} has ended: open it again")

    def atom(self, name: str) -> int:
        """The number of a name."""
        return int(xlib().XInternAtom(self.handle, name.encode(), 0))

    def atom_name(self, atom: int) -> str:
        """The name of a number, "" where it has none."""
        with self.lock:
            known = xlib().XGetAtomName(self.handle, atom)
            self._forget_error()
            if not known:
                return ""
            name = ctypes.string_at(known)[:NAME_BYTES].decode("utf-8", "replace")
            xlib().XFree(known)
        return name

    def attributes(self, window: int) -> Attributes:
        """Size and state of a window; raises X11Error where it is gone."""
        found = Attributes()
        with self.lock:
            known = xlib().XGetWindowAttributes(self.handle, window, byref(found))
            self.check(f"asking for window {window:#x}")
        if not known:
            raise X11Error(f"there is no window {window:#x}")
        return found

    def position(self, window: int) -> tuple[int, int]:
        """Where the top left of a window's content is on the screen."""
        x, y, child = c_int(), c_int(), c_ulong()
        with self.lock:
            xlib().XTranslateCoordinates(
                self.handle, window, self.root, 0, 0, byref(x), byref(y), byref(child)
            )
            self.check(f"asking where window {window:#x} is")
        return x.value, y.value

    def children(self, window: int) -> list[int]:
        """The windows directly within a window, the lowest first."""
        root, parent, listed, count = c_ulong(), c_ulong(), ctypes.POINTER(c_ulong)(), c_uint()
        with self.lock:
            self.alive()
            xlib().XQueryTree(self.handle, window, byref(root), byref(parent), byref(listed), byref(count))
            self._forget_error()
            found = [int(listed[at]) for at in range(count.value)] if listed else []
            if listed:
                xlib().XFree(listed)
        return found

    def pointer(self) -> tuple[int, int, int]:
        """Where the pointer is, and the mask of buttons and modifiers that are down or locked."""
        root, child, mask = c_ulong(), c_ulong(), c_uint()
        x, y, inner_x, inner_y = c_int(), c_int(), c_int(), c_int()
        with self.lock:
            self.alive()
            xlib().XQueryPointer(
                self.handle,
                self.root,
                *(byref(place) for place in (root, child, x, y, inner_x, inner_y, mask)),
            )
        return x.value, y.value, mask.value

    def numbers(self, window: int, name: str) -> list[int]:
        """A property of 32-bit numbers, [] where the window has none such."""
        raw, size = self._property(window, name)
        return [] if size != 32 else list(memoryview(raw).cast("L"))

    def text(self, window: int, name: str) -> str:
        """A property of text, "" where the window has none such."""
        raw, size = self._property(window, name)
        return raw.decode("utf-8", "replace") if size == 8 else ""

    def taken(self, window: int, place: int, limit: int) -> tuple[bytes, int]:
        """A property's bytes, somewhat more than `limit` at most, and the number of its kind; it is deleted."""
        kind, size, count, left, data = c_ulong(), c_int(), c_ulong(), c_ulong(), c_void_p()
        with self.lock:
            self.alive()
            xlib().XGetWindowProperty(
                *(self.handle, window, place, 0, limit // 4 + 1, 1, ANY_TYPE),
                *(byref(answer) for answer in (kind, size, count, left, data)),
            )
            raw = ctypes.string_at(data.value, count.value) if data.value and size.value == 8 else b""
            if data.value:
                xlib().XFree(data)
            if left.value:
                xlib().XDeleteProperty(self.handle, window, place)
            self._forget_error()
        return raw, kind.value

    def _forget_error(self) -> None:
        if _errors.get(self.handle, 0) > 0:
            del _errors[self.handle]

    def _property(self, window: int, name: str) -> tuple[bytes, int]:
        """The bytes of a property (a 32-bit number takes a C long) and the bits of its items."""
        kind, size, count, left, data = c_ulong(), c_int(), c_ulong(), c_ulong(), c_void_p()
        with self.lock:
            self.alive()
            status = xlib().XGetWindowProperty(
                *(self.handle, window, self.atom(name), 0, PROPERTY_BYTES // 4, 0, ANY_TYPE),
                *(byref(place) for place in (kind, size, count, left, data)),
            )
            self._forget_error()
            if status or not data.value:
                return b"", 0
            width = {8: 1, 16: 2, 32: ctypes.sizeof(ctypes.c_long)}.get(size.value, 1)
            raw = ctypes.string_at(data.value, count.value * width)
            xlib().XFree(data)
        return raw, size.value
