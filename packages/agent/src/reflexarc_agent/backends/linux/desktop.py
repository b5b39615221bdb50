"""What the features share: the session's display and its accessibility bus, opened when they are asked for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Callable, Mapping, Optional, Tuple, Union

from reflexarc_agent.backend import RefusalError
from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.atspi.acting import Input
from reflexarc_agent.backends.linux.atspi.errors import AtSpiError
from reflexarc_agent.backends.linux.errors import DisplayError
from reflexarc_agent.backends.linux.wayland.devices import Wayland
from reflexarc_agent.backends.linux.x11.devices import X11

Devices = Union[X11, Wayland]
BUS_GRANT = "run the agent inside the desktop session of the user, with at-spi2-core installed"
ANSWER, SOON = 2.0, 0.5
"""Seconds that a display server has to answer who uses it, and who asks only whether it is there."""

PATIENCE = 10.0
"""Seconds that an operation on the tree waits for the accessibility bus; one that is being started takes long."""


class Desktop:
    """The display and the accessibility bus that the session has now; opened again when they are lost, or others.

    The display is Wayland's where the session has one: the X server that may be there too shows its own clients only.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._looking_for_display = threading.Lock()
        self._look: Optional[Look] = None
        self._opening_bus = threading.Lock()
        self._display: Optional[Devices] = None
        self._where: Tuple[str, ...] = ()
        self._bus: Optional[Opening] = None

    def display(self, seconds: float = ANSWER) -> Devices:
        """The display; raises RefusalError where there is none, or none that answers so soon."""
        with self._looking_for_display:
            look = self._look
            if look is None or look.over:
                self._look = look = Look(self._find_display)
        return look.wait(seconds)

    def _find_display(self) -> Devices:
        """The display once it has answered, opened where it isn't; by one thread at a time."""
        where = _where(self._environ)
        kept = self._display
        if kept is not None and (where != self._where or not _alive(kept)):
            self._display = None
            kept.close()
        if self._display is None:
            try:
                self._display = _opened(self._environ)
            except DisplayError as error:
                raise RefusalError(error.code, str(error)) from error
            self._where = where
        return self._display

    def accessibility(self, seconds: float = PATIENCE) -> Accessibility:
        """The accessibility bus; raises RefusalError where there is none, or none that answers so soon."""
        devices = self._input()
        with self._opening_bus:
            kept = self._bus
            if kept is None or kept.over or kept.devices is not devices:
                if kept is not None:
                    kept.leave()
                self._bus = kept = Opening(self._environ, devices)
        return kept.wait(seconds)

    def _input(self) -> Optional[Input]:
        """Pointer and keys, None where there are none to be had; of a display that hangs those that there were."""
        with suppress(RefusalError, DisplayError):
            try:
                display = self.display(SOON)
            except RefusalError:
                if self._display is None:
                    raise
                display = self._display
            display.require("input")
            return display
        return None


class Look:
    """One look for the display, in a thread of its own: a server that hangs is waited for without end."""

    def __init__(self, find: Callable[[], Devices]) -> None:
        self._begun = time.monotonic()
        self._found: Future[Devices] = Future()
        threading.Thread(target=self._run, args=(find,), name="finding display", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._found.done()

    def wait(self, seconds: float) -> Devices:
        """What was found, within so many seconds of its beginning; raises RefusalError."""
        try:
            return self._found.result(max(0.0, self._begun + seconds - time.monotonic()))
        except FutureTimeoutError:
            raise RefusalError(
                "timeout", "the display server does not answer: it hangs, or is stopped"
            ) from None

    def _run(self, find: Callable[[], Devices]) -> None:
        try:
            self._found.set_result(find())
        except Exception as error:  # noqa: BLE001 (it is the askers')
            self._found.set_exception(error)


class Opening:
    """The accessibility bus, looked for in a thread of its own: D-Bus may take minutes to start its service."""

    def __init__(self, environ: Mapping[str, str], devices: Optional[Input]) -> None:
        self.devices = devices
        self._found: Future[Accessibility] = Future()
        threading.Thread(target=self._open, args=(environ,), name="finding atspi", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether it failed, or was lost again."""
        if not self._found.done():
            return False
        return self._found.exception() is not None or self._found.result().lost

    def wait(self, seconds: float) -> Accessibility:
        """Wait until it is open; raises RefusalError where it can't be, or isn't by then."""
        try:
            return self._found.result(seconds)
        except AtSpiError as error:
            raise RefusalError(error.code, str(error), BUS_GRANT) from error
        except FutureTimeoutError:
            raise RefusalError("timeout", "the accessibility bus does not answer yet") from None

    def leave(self) -> None:
        """Close it, once it is open; waits for nothing."""
        self._found.add_done_callback(_left)

    def _open(self, environ: Mapping[str, str]) -> None:
        try:
            accessibility = Accessibility(environ, self.devices)
            accessibility.open()
        except Exception as error:  # noqa: BLE001 (it is the askers')
            self._found.set_exception(error)
        else:
            self._found.set_result(accessibility)


def _left(found: Future[Accessibility]) -> None:
    if found.exception() is None:
        threading.Thread(target=found.result().close, name="leaving atspi", daemon=True).start()


def _where(environ: Mapping[str, str]) -> Tuple[str, ...]:
    """Which display the session has, in its own words."""
    names = ("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR") if environ.get("WAYLAND_DISPLAY") else ("DISPLAY",)
    return tuple(environ.get(name, "") for name in names)


def _opened(environ: Mapping[str, str]) -> Devices:
    return Wayland(environ) if environ.get("WAYLAND_DISPLAY") else X11(environ.get("DISPLAY", ""))


def _alive(display: Devices) -> bool:
    """Whether it is still there; waits for the answer of an X server that hangs."""
    try:
        display.alive()
        if isinstance(display, X11):
            display.answer()
    except DisplayError:
        return False
    return True
