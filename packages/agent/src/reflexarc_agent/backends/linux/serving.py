"""The features that a Linux desktop offers, as the agent's backends: accessibility, screen, input."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, TypeVar, Union

from reflexarc_agent.backend import Backend, Handlers, RefusalError
from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.acting import Delivery, Input
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.atspi.session import Session
from reflexarc_agent.backends.linux.errors import DisplayError
from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.session import DisplaySession, encoded, readiness, unscaled
from reflexarc_agent.backends.linux.wayland.devices import Wayland
from reflexarc_agent.backends.linux.wayland_serving import wayland_features
from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST, UNSUPPORTED
from reflexarc_wire.values import App, Display, Key, Node, Readiness, Rect

T = TypeVar("T")
FOUND, WAIT = 20, 10.0
Devices = Union[X11, Wayland]
GRANT = "run the agent inside the desktop session of the user, with at-spi2-core installed"
DISPLAY_GRANT = "run the agent inside the desktop session of the user"


class Desktop:
    """The session's accessibility bus and its display, opened when first asked for, and again when they are lost.

    The display is Wayland's where the session has one: the X server that may be there too shows its own clients only.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._display: Optional[Devices] = None
        self._accessibility: Optional[Accessibility] = None

    def display(self) -> Devices:
        """The display; raises RefusalError where there is none."""
        with self._lock:
            return self._opened_display()

    def x11(self) -> X11:
        """The X display; raises RefusalError where there is none."""
        display = self.display()
        assert isinstance(display, X11)
        return display

    def wayland(self) -> Wayland:
        """The compositor; raises RefusalError where there is none."""
        display = self.display()
        assert isinstance(display, Wayland)
        return display

    def input(self) -> Devices:
        """The display, where it lets itself be typed to; raises RefusalError, or DisplayError where it doesn't."""
        return _input(self.display())

    def accessibility(self) -> Accessibility:
        """The accessibility bus; raises RefusalError where there is none."""
        with self._lock:
            devices: Optional[Input] = None
            with suppress(RefusalError, DisplayError):
                devices = _input(self._opened_display())
            kept = self._accessibility
            if kept is not None and (kept.lost or kept.devices is not devices):
                self._leave_accessibility()
            if self._accessibility is None:
                opened = Accessibility(self._environ, devices)
                try:
                    opened.open()
                except AtSpiError as error:
                    raise RefusalError(error.code, str(error), GRANT) from error
                self._accessibility = opened
            return self._accessibility

    def _opened_display(self) -> Devices:
        if self._display is not None:
            try:
                self._display.alive()
            except DisplayError:
                lost, self._display = self._display, None
                self._leave_accessibility()
                lost.close()
        if self._display is None:
            try:
                self._display = self._open_display()
            except DisplayError as error:
                raise RefusalError(error.code, str(error)) from error
        return self._display

    def _open_display(self) -> Devices:
        if self._environ.get("WAYLAND_DISPLAY"):
            return Wayland(self._environ)
        return X11(self._environ.get("DISPLAY", ""))

    def _leave_accessibility(self) -> None:
        kept, self._accessibility = self._accessibility, None
        if kept is not None:
            kept.close()


def backends(environ: Mapping[str, str]) -> List[Backend]:
    """The backends of this session; none where no desktop is in sight."""
    if not any(environ.get(name) for name in ("WAYLAND_DISPLAY", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS")):
        return []
    desktop = Desktop(environ)
    on_wayland = environ.get("WAYLAND_DISPLAY")
    own = wayland_features(desktop.wayland) if on_wayland else [ScreenFeature(desktop)]
    return [AccessibilityFeature(desktop), *own, InputFeature(desktop)]


def _input(display: Devices) -> Devices:
    if isinstance(display, Wayland):
        display.require_input()
    return display


class AccessibilityFeature:
    """The feature "accessibility"."""

    feature = "accessibility"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(self._desktop.accessibility, GRANT)

    def open(self) -> AccessibilitySession:
        return AccessibilitySession(self._desktop)


class AccessibilitySession:
    """One connection's references and operations on the tree."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop
        self._source: Optional[Accessibility] = None
        self._session: Optional[Session] = None
        self._refs = Refs()

    @property
    def handlers(self) -> Handlers:
        return {
            requests.AxDump: self.dump,
            requests.AxElementAt: lambda r: _node_reply(self._run(lambda s: s.element_at(r.x, r.y))),
            requests.AxAction: lambda r: _done(self._run(lambda s: s.act(r.ref, r.action))),
            requests.AxSetValue: lambda r: _done(self._run(lambda s: s.set_value(r.ref, r.value))),
            requests.AxFocus: lambda r: _done(self._run(lambda s: s.focus(r.ref))),
            requests.AxFind: self.find,
            requests.AxWait: self.wait,
            requests.AxApps: self.apps,
            requests.AxActions: lambda r: replies.AxActionsReply(
                tuple(self._run(lambda s: s.actions(r.ref)))
            ),
        }

    def close(self) -> None:
        self._source = self._session = None

    def dump(self, request: requests.AxDump) -> replies.AxDumpReply:
        """A tree or an outline."""
        if request.earlier is not None:
            raise RefusalError(
                UNSUPPORTED, "this agent tells no differences between dumps: leave out `since`"
            )
        told = self._run(
            lambda session: session.dump(
                target=request.target,
                root=request.root,
                max_depth=64 if request.max_depth is None else request.max_depth,
                max_nodes=request.max_nodes or 20_000,
                deadline=min(request.deadline or 5.0, 60.0),
                outlined=request.format == "outline",
                interactive_only=bool(request.interactive_only),
            )
        )
        tree = told.get("tree")
        return replies.AxDumpReply(
            tree=to_node(tree) if tree else None,
            outline=told.get("outline"),
            complete=told["complete"],
            capped=told["capped"],
            count=told["count"],
        )

    def find(self, request: requests.AxFind) -> replies.AxFindReply:
        """What a selector means in the frontmost application."""
        limit = request.limit or FOUND
        told = self._run(lambda session: session.find(_selector(request), limit=limit))
        return replies.AxFindReply(tuple(map(to_node, told["nodes"])), told["complete"], told["capped"])

    def wait(self, request: requests.AxWait) -> replies.NodeReply:
        """Wait in every application."""
        seconds = WAIT if request.timeout is None else request.timeout
        return _node_reply(self._run(lambda s: s.wait(_selector(request), bool(request.gone), seconds)))

    def apps(self, request: requests.AxApps) -> replies.AxAppsReply:
        """The applications that offer a tree."""
        return replies.AxAppsReply(tuple(App(**app) for app in self._run(lambda session: session.apps())))

    def _run(self, operation: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        accessibility = self._desktop.accessibility()
        if self._session is None or self._source is not accessibility:
            # What the references named went with the bus: none may come to name something else.
            self._refs.end_all()
            self._source, self._session = accessibility, accessibility.session(self._refs)
        try:
            return accessibility.run(operation(self._session))
        except AtSpiError as error:
            raise RefusalError(error.code, str(error)) from error
        except DisplayError as error:
            raise RefusalError(error.code, str(error)) from error


def _selector(request: requests.AxFind) -> Selector:
    showing = True if request.showing is None else request.showing
    return Selector(request.role, request.name, request.value, request.text, showing)


def _done(delivery: Delivery) -> replies.Done:
    return replies.Done(delivery.delivery, delivery.retry_safe)


def _node_reply(told: Mapping[str, Any]) -> replies.NodeReply:
    return replies.NodeReply(to_node(told["node"]) if told["node"] else None)


def to_node(told: Mapping[str, Any]) -> Node:
    """A node of the wire, with those below it."""
    fields: Dict[str, Any] = dict(told)
    if "frame" in fields:
        fields["frame"] = Rect(**fields["frame"])
    for listed in ("actions", "path"):
        if listed in fields:
            fields[listed] = tuple(fields[listed])
    fields["children"] = tuple(map(to_node, fields.get("children", ())))
    return Node(**fields)


class ScreenFeature:
    """The feature "screen" on X11."""

    feature = "screen"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(self._desktop.x11, DISPLAY_GRANT)

    def open(self) -> ScreenSession:
        return ScreenSession(self._desktop.x11)


class ScreenSession(DisplaySession[X11]):
    """Pictures of the display."""

    @property
    def handlers(self) -> Handlers:
        return {
            requests.Screenshot: self.screenshot,
            requests.Displays: lambda r: replies.DisplaysReply((self._with(_display),)),
            requests.Cursor: lambda r: replies.CursorReply(
                *self._with(lambda x11: x11.display.pointer()[:2])
            ),
        }

    def screenshot(self, request: requests.Screenshot) -> replies.ScreenshotReply:
        """A picture, as PNG where JPEG wasn't asked for or can't be made."""
        region = request.region
        area = Area(*(round(edge) for edge in (region.x, region.y, region.w, region.h))) if region else None
        window = request.window
        if isinstance(window, str):
            raise RefusalError(BAD_REQUEST, f"a window of this desktop is a number, not {window[:40]!r}")
        unscaled(request)
        self._only(request.display)
        picture = self._with(lambda x11: x11.capture.take(window, area))
        image, kind = encoded(picture, request)
        return replies.ScreenshotReply(image, picture.width, picture.height, 1.0, kind)

    def _only(self, display: Optional[Key]) -> None:
        """Refuse any display but the one there is."""
        name = self._with(lambda x11: x11.display.name)
        if display not in (None, name):
            raise RefusalError(UNSUPPORTED, f"this agent sees the display {name} only: leave out `display`")


def _display(x11: X11) -> Display:
    size = x11.display.attributes(x11.display.root)
    return Display(x11.display.name, 0, 0, size.width, size.height, 1.0, True)


class InputFeature:
    """The feature "input"."""

    feature = "input"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(self._desktop.input, DISPLAY_GRANT)

    def open(self) -> InputSession:
        return InputSession(self._desktop.display)


class InputSession(DisplaySession[Devices]):
    """Pointer and keys; what this connection still holds down is let go when it ends."""

    def __init__(self, display: Callable[[], Devices]) -> None:
        super().__init__(display)
        self._holds = False

    @property
    def handlers(self) -> Handlers:
        act = self._act
        return {
            requests.Click: lambda r: act(lambda x: x.click(r.x, r.y, r.button or "left", r.count or 1)),
            requests.Move: lambda r: act(lambda x: x.pointer.move(r.x, r.y)),
            requests.Drag: lambda r: act(lambda x: x.pointer.drag(r.from_x, r.from_y, r.to_x, r.to_y)),
            requests.Scroll: lambda r: act(lambda x: x.pointer.scroll(r.dx, r.dy)),
            requests.TypeText: lambda r: act(lambda x: x.type(r.text)),
            requests.KeyChord: lambda r: act(lambda x: x.key(r.chord)),
            requests.KeyDown: lambda r: self._hold(lambda x: x.keyboard.key_down(r.key)),
            requests.KeyUp: lambda r: act(lambda x: x.keyboard.key_up(r.key)),
            requests.MouseDown: lambda r: self._hold(lambda x: _mouse_down(x, r)),
            requests.MouseUp: lambda r: act(lambda x: _mouse_up(x, r)),
        }

    def close(self) -> None:
        if self._holds:
            # A display that is gone holds nothing any more.
            with suppress(RefusalError):
                self._with(lambda display: display.keyboard.release())
                self._with(lambda display: display.pointer.release())

    def _hold(self, act: Callable[[Devices], object]) -> replies.Done:
        self._holds = True
        return self._act(act)


def _mouse_down(display: Devices, request: requests.MouseDown) -> None:
    display.pointer.move(request.x, request.y)
    display.pointer.mouse_down(request.button or "left")


def _mouse_up(display: Devices, request: requests.MouseUp) -> None:
    display.pointer.move(request.x, request.y)
    display.pointer.mouse_up(request.button or "left")
