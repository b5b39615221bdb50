"""The features that a Wayland session offers: screen, windows, clipboard; pointer and keys are served as X11's are."""

from __future__ import annotations

from typing import Callable, List, Tuple

from reflexarc_agent.backend import Backend, Handlers, RefusalError
from reflexarc_agent.backends.linux.session import DisplaySession, encoded, readiness, unscaled
from reflexarc_agent.backends.linux.wayland.devices import Points, Wayland
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST, UNSUPPORTED
from reflexarc_wire.values import Display, Key, Readiness, Rect, Window

GRANT = "run the agent inside the desktop session of the user"
FAR = 1_000_000
Open = Callable[[], Wayland]


def wayland_features(wayland: Open) -> List[Backend]:
    """The backends that are Wayland's own."""
    return [ScreenFeature(wayland), WindowsFeature(wayland), ClipboardFeature(wayland)]


class ScreenFeature:
    """The feature "screen"."""

    feature = "screen"

    def __init__(self, wayland: Open) -> None:
        self._wayland = wayland

    def readiness(self) -> Readiness:
        return readiness(lambda: self._wayland().capture.require(), GRANT)

    def open(self) -> ScreenSession:
        return ScreenSession(self._wayland)


class ScreenSession(DisplaySession[Wayland]):
    """Pictures of the outputs."""

    @property
    def handlers(self) -> Handlers:
        return {
            requests.Screenshot: self.screenshot,
            requests.Displays: lambda r: replies.DisplaysReply(self._with(_displays)),
            requests.Cursor: self.cursor,
        }

    def screenshot(self, request: requests.Screenshot) -> replies.ScreenshotReply:
        """A picture, as PNG where JPEG wasn't asked for or can't be made."""
        unscaled(request)
        region = Points(*_edges(request.region)) if request.region else None
        window = _window(request.window) if request.window is not None else None
        if window is not None and region is not None:
            raise RefusalError(UNSUPPORTED, "this agent takes a window as a whole: leave out `region`")
        shot = self._with(lambda wayland: wayland.shot(request.display, region, window))
        image, kind = encoded(shot.picture, request)
        return replies.ScreenshotReply(image, shot.picture.width, shot.picture.height, shot.scale, kind)

    def cursor(self, request: requests.Cursor) -> replies.CursorReply:
        """Refuse: no protocol tells a client where the pointer is."""
        raise RefusalError(UNSUPPORTED, "Wayland doesn't tell where the pointer is")


class WindowsFeature:
    """The windows, of the feature "apps"."""

    feature = "apps"

    def __init__(self, wayland: Open) -> None:
        self._wayland = wayland

    def readiness(self) -> Readiness:
        return readiness(lambda: self._wayland().windows.require(), GRANT)

    def open(self) -> WindowsSession:
        return WindowsSession(self._wayland)


class WindowsSession(DisplaySession[Wayland]):
    """Lists and arranges windows."""

    @property
    def handlers(self) -> Handlers:
        return {requests.Windows: self.windows}

    def windows(self, request: requests.Windows) -> replies.WindowsReply:
        """List them, or act on one; an act whose effect isn't seen may have happened."""
        if request.action == "list":
            return replies.WindowsReply(self._with(_windows))
        if request.window is None:
            raise RefusalError(BAD_REQUEST, f"{request.action} which window? name it")
        window, frame = _window(request.window), request.frame
        if request.action == "activate":
            seen = self._with(lambda wayland: wayland.windows.activate(window))
        elif request.action == "close":
            seen = self._with(lambda wayland: wayland.windows.close(window))
        elif frame is None:
            raise RefusalError(BAD_REQUEST, "move it where? name a frame")
        else:
            x, y = _edges(frame)[:2]
            seen = self._with(lambda wayland: wayland.move(window, x, y))
        return replies.WindowsReply(None, "delivered" if seen else "unknown", False)


class ClipboardFeature:
    """The feature "clipboard"."""

    feature = "clipboard"

    def __init__(self, wayland: Open) -> None:
        self._wayland = wayland

    def readiness(self) -> Readiness:
        return readiness(lambda: self._wayland().clipboard.require(), GRANT)

    def open(self) -> ClipboardSession:
        return ClipboardSession(self._wayland)


class ClipboardSession(DisplaySession[Wayland]):
    """Reads and sets the clipboard's text."""

    @property
    def handlers(self) -> Handlers:
        return {requests.Clipboard: self.clipboard}

    def clipboard(self, request: requests.Clipboard) -> replies.ClipboardReply:
        """The text, or nothing once it is set."""
        if request.action == "get":
            return replies.ClipboardReply(self._with(lambda wayland: wayland.clipboard.get()))
        text = request.text or ""
        self._with(lambda wayland: wayland.clipboard.set(text))
        return replies.ClipboardReply()


def _displays(wayland: Wayland) -> Tuple[Display, ...]:
    outputs = wayland.outputs.listed()
    left, top = outputs[0].x, outputs[0].y
    return tuple(Display(o.name, o.x - left, o.y - top, o.w, o.h, o.scale, o is outputs[0]) for o in outputs)


def _windows(wayland: Wayland) -> Tuple[Window, ...]:
    left, top = wayland.outputs.origin()
    return tuple(
        Window(
            known.id,
            known.title,
            known.pid,
            Rect(known.frame.x - left, known.frame.y - top, known.frame.w, known.frame.h)
            if known.frame
            else None,
            known.active,
        )
        for known in wayland.windows.listed()
    )


def _window(key: Key) -> int:
    if isinstance(key, str):
        raise RefusalError(BAD_REQUEST, f"a window of this desktop is a number, not {key[:40]!r}")
    return key


def _edges(rect: Rect) -> Tuple[float, float, float, float]:
    """The numbers of a rectangle; refuses such as no screen has."""
    edges = (rect.x, rect.y, rect.w, rect.h)
    if not all(abs(edge) < FAR for edge in edges):
        raise RefusalError(BAD_REQUEST, f"{rect} is no place of a screen")
    return edges
