"""The feature "input": pointer and keys."""

from __future__ import annotations

from contextlib import suppress
from typing import Callable

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.desktop import SOON, Desktop, Devices
from reflexarc_agent.backends.linux.features.session import DisplaySession, readiness
from reflexarc_wire import replies, requests
from reflexarc_wire.values import Readiness


class InputFeature:
    """The feature "input"."""

    feature = "input"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(lambda: self._desktop.display(SOON).require("input"))

    def open(self) -> InputSession:
        return InputSession(self._desktop)


class InputSession(DisplaySession):
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
