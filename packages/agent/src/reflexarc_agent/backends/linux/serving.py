"""The features that a Linux desktop offers, as the agent's backends: accessibility, screen, input."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, TypeVar

from reflexarc_agent.backend import Backend, Handlers, RefusalError
from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.acting import Delivery
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.atspi.refs import Refs
from reflexarc_agent.backends.linux.atspi.selecting import Selector
from reflexarc_agent.backends.linux.atspi.session import Session
from reflexarc_agent.backends.linux.x11.capture import Area
from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_agent.backends.linux.x11.encoding import jpeg, png
from reflexarc_agent.backends.linux.x11.errors import NotTypeableError, X11Error
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST, OS_ERROR, UNSUPPORTED
from reflexarc_wire.values import App, Display, Key, Node, Readiness, Rect

T = TypeVar("T")
FOUND, WAIT = 20, 10.0
GRANT = "run the agent inside the desktop session of the user, with at-spi2-core installed"
X11_GRANT = "run the agent inside an X11 session"


class Desktop:
    """The session's accessibility bus and X display, opened when first asked for, and again when they are lost."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lock = threading.Lock()
        self._x11: Optional[X11] = None
        self._accessibility: Optional[Accessibility] = None

    def x11(self) -> X11:
        """The display; raises RefusalError where there is none."""
        with self._lock:
            return self._opened_x11()

    def accessibility(self) -> Accessibility:
        """The accessibility bus; raises RefusalError where there is none."""
        with self._lock:
            devices: Optional[X11] = None
            with suppress(RefusalError):
                devices = self._opened_x11()
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

    def _opened_x11(self) -> X11:
        if self._x11 is not None:
            try:
                self._x11.display.alive()
            except X11Error:
                lost, self._x11 = self._x11, None
                self._leave_accessibility()
                lost.close()
        if self._x11 is None:
            try:
                self._x11 = X11(self._environ.get("DISPLAY", ""))
            except X11Error as error:
                raise RefusalError(OS_ERROR, str(error)) from error
        return self._x11

    def _leave_accessibility(self) -> None:
        kept, self._accessibility = self._accessibility, None
        if kept is not None:
            kept.close()


def backends(environ: Mapping[str, str]) -> List[Backend]:
    """The backends of this session, which may still be to come: their readiness tells."""
    desktop = Desktop(environ)
    return [AccessibilityFeature(desktop), ScreenFeature(desktop), InputFeature(desktop)]


def _readiness(ask: Callable[[], object], grant: str) -> Readiness:
    try:
        ask()
    except RefusalError as refusal:
        return Readiness(False, str(refusal), grant)
    return Readiness(True)


class AccessibilityFeature:
    """The feature "accessibility"."""

    feature = "accessibility"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return _readiness(self._desktop.accessibility, GRANT)

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
        except (NotTypeableError, X11Error) as error:
            raise RefusalError(OS_ERROR, str(error)) from error


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


class _DisplaySession:
    """One connection's operations on the display."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def _with(self, act: Callable[[X11], T]) -> T:
        try:
            return act(self._desktop.x11())
        except NotTypeableError as error:
            raise RefusalError(BAD_REQUEST, str(error)) from error
        except X11Error as error:
            raise RefusalError(OS_ERROR, str(error)) from error

    def _act(self, act: Callable[[X11], object]) -> replies.Done:
        self._with(act)
        return replies.Done("delivered", False)


class _DisplayFeature:
    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return _readiness(self._desktop.x11, X11_GRANT)


class ScreenFeature(_DisplayFeature):
    """The feature "screen"."""

    feature = "screen"

    def open(self) -> ScreenSession:
        return ScreenSession(self._desktop)


class ScreenSession(_DisplaySession):
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

    def close(self) -> None:
        """Nothing is kept for a connection."""

    def screenshot(self, request: requests.Screenshot) -> replies.ScreenshotReply:
        """A picture, as PNG where JPEG wasn't asked for or can't be made."""
        region = request.region
        area = Area(*(round(edge) for edge in (region.x, region.y, region.w, region.h))) if region else None
        window = request.window
        if isinstance(window, str):
            raise RefusalError(BAD_REQUEST, f"a window of this desktop is a number, not {window[:40]!r}")
        if request.scale not in (None, 1):
            raise RefusalError(UNSUPPORTED, "this agent doesn't scale pictures: leave out `scale`")
        self._only(request.display)
        picture = self._with(lambda x11: x11.capture.take(window, area))
        image = jpeg(picture, request.quality or 80) if request.format == "jpeg" else None
        if image is None:
            return replies.ScreenshotReply(png(picture), picture.width, picture.height, 1.0, "png")
        return replies.ScreenshotReply(image, picture.width, picture.height, 1.0)

    def _only(self, display: Optional[Key]) -> None:
        """Refuse any display but the one there is."""
        name = self._with(lambda x11: x11.display.name)
        if display not in (None, name):
            raise RefusalError(UNSUPPORTED, f"this agent sees the display {name} only: leave out `display`")


def _display(x11: X11) -> Display:
    size = x11.display.attributes(x11.display.root)
    return Display(x11.display.name, 0, 0, size.width, size.height, 1.0, True)


class InputFeature(_DisplayFeature):
    """The feature "input"."""

    feature = "input"

    def open(self) -> InputSession:
        return InputSession(self._desktop)


class InputSession(_DisplaySession):
    """Pointer and keys; what this connection still holds down is let go when it ends."""

    def __init__(self, desktop: Desktop) -> None:
        super().__init__(desktop)
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
                self._with(lambda x11: x11.keyboard.release())
                self._with(lambda x11: x11.pointer.release())

    def _hold(self, act: Callable[[X11], object]) -> replies.Done:
        self._holds = True
        return self._act(act)


def _mouse_down(x11: X11, request: requests.MouseDown) -> None:
    x11.pointer.move(request.x, request.y)
    x11.pointer.mouse_down(request.button or "left")


def _mouse_up(x11: X11, request: requests.MouseUp) -> None:
    x11.pointer.move(request.x, request.y)
    x11.pointer.mouse_up(request.button or "left")
