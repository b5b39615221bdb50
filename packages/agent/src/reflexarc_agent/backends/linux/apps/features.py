"""The features "apps" and "clipboard", as the agent's backends."""

from __future__ import annotations

import threading
from typing import Callable, Mapping, Optional, TypeVar

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.apps.entries import EntryError
from reflexarc_agent.backends.linux.apps.launching import launch
from reflexarc_agent.backends.linux.x11.capture import Area
from reflexarc_agent.backends.linux.x11.clipboard import Clipboard
from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_agent.backends.linux.x11.errors import (
    NoAnswerError,
    NoManagerError,
    NotTypeableError,
    TooLargeError,
    X11Error,
)
from reflexarc_agent.backends.linux.x11.windows import Window
from reflexarc_wire import replies, requests, values
from reflexarc_wire.errors import BAD_REQUEST, OS_ERROR, UNSUPPORTED

T = TypeVar("T")
Opened = Callable[[], X11]
"""Gives the display; raises RefusalError where there is none."""

_CODES = {
    NotTypeableError: BAD_REQUEST,
    NoManagerError: UNSUPPORTED,
    TooLargeError: "capped",
    NoAnswerError: "timeout",
}


def refused(error: X11Error) -> RefusalError:
    """What the host is told of an X server's error."""
    return RefusalError(_CODES.get(type(error), OS_ERROR), str(error))


class AppsFeature:
    """The feature "apps": starting applications, and their windows."""

    feature = "apps"

    def __init__(self, opened: Opened, environ: Mapping[str, str]) -> None:
        self._opened = opened
        self._environ = environ

    def readiness(self) -> values.Readiness:
        return values.Readiness(True)

    def open(self) -> AppsSession:
        return AppsSession(self._opened, self._environ)


class AppsSession:
    """One connection's operations on applications and windows."""

    def __init__(self, opened: Opened, environ: Mapping[str, str]) -> None:
        self._opened = opened
        self._environ = environ

    @property
    def handlers(self) -> Handlers:
        return {requests.LaunchApp: self.launch, requests.Windows: self.windows}

    def close(self) -> None:
        """What was started lives on."""

    def launch(self, request: requests.LaunchApp) -> replies.Done:
        """Start an application by its desktop entry."""
        try:
            started = launch(request.name, self._environ)
        except EntryError as error:
            raise RefusalError(BAD_REQUEST, str(error)) from error
        return replies.Done("delivered" if started else "unknown", False)

    def windows(self, request: requests.Windows) -> replies.WindowsReply:
        """List the windows, or act on one and list them then."""
        x11 = self._opened()
        try:
            done = None if request.action == "list" else _arrange(x11, request)
            listed = tuple(map(_window, x11.windows.listed()))
        except X11Error as error:
            raise refused(error) from error
        if done is None:
            return replies.WindowsReply(listed)
        return replies.WindowsReply(listed, "delivered" if done else "unknown", False)


def _arrange(x11: X11, request: requests.Windows) -> bool:
    window, frame = request.window, request.frame
    if not isinstance(window, int) or not 0 < window < 1 << 32:
        raise RefusalError(BAD_REQUEST, f"`window` is the id of the window to {request.action}, a number")
    if request.action == "activate":
        return x11.windows.activate(window)
    if request.action == "close":
        return x11.windows.close(window)
    if frame is None:
        raise RefusalError(BAD_REQUEST, "`frame` says where to move the window: x, y, and its size or zeros")
    place = Area(*(round(edge) for edge in (frame.x, frame.y, frame.w, frame.h)))
    if max(abs(place.x), abs(place.y), abs(place.w), abs(place.h)) >= 1 << 15:
        raise RefusalError(BAD_REQUEST, "`frame` is beyond what a screen can be")
    return x11.windows.move(window, place)


def _window(window: Window) -> values.Window:
    frame = values.Rect(window.frame.x, window.frame.y, window.frame.w, window.frame.h)
    return values.Window(window.id, window.title, window.pid or None, frame, window.active)


class ClipboardFeature:
    """The feature "clipboard"; what was put there stays while the agent and its display live."""

    feature = "clipboard"

    def __init__(self, opened: Opened, grant: str) -> None:
        self._opened = opened
        self._grant = grant
        self._lock = threading.Lock()
        self._clipboard: Optional[Clipboard] = None

    def readiness(self) -> values.Readiness:
        try:
            self._opened()
        except RefusalError as refusal:
            return values.Readiness(False, str(refusal), self._grant)
        return values.Readiness(True)

    def open(self) -> ClipboardSession:
        return ClipboardSession(self.clipboard)

    def clipboard(self) -> Clipboard:
        """The display's clipboard, opened again where that has ended; raises RefusalError."""
        with self._lock:
            if self._clipboard is None or not self._clipboard.alive:
                name = self._opened().display.name
                try:
                    self._clipboard = Clipboard(name)
                except X11Error as error:
                    raise refused(error) from error
            return self._clipboard


class ClipboardSession:
    """One connection's operations on the clipboard."""

    def __init__(self, clipboard: Callable[[], Clipboard]) -> None:
        self._clipboard = clipboard

    @property
    def handlers(self) -> Handlers:
        return {requests.Clipboard: self.perform}

    def close(self) -> None:
        """The text stays."""

    def perform(self, request: requests.Clipboard) -> replies.ClipboardReply:
        """Get the text, or set it."""
        try:
            if request.action == "get":
                return replies.ClipboardReply(self._clipboard().get())
            if request.text is None:
                raise RefusalError(BAD_REQUEST, "`text` is what to put on the clipboard")
            self._clipboard().set(request.text)
        except X11Error as error:
            raise refused(error) from error
        return replies.ClipboardReply()
