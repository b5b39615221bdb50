"""The feature "apps": starting applications, and their windows."""

from __future__ import annotations

from contextlib import suppress
from typing import Mapping, Optional, Tuple

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.apps.entries import EntryError
from reflexarc_agent.backends.linux.apps.launching import launch
from reflexarc_agent.backends.linux.desktop import Desktop, Devices
from reflexarc_agent.backends.linux.errors import DisplayError
from reflexarc_agent.backends.linux.features.session import DisplaySession, place, window_number
from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST
from reflexarc_wire.values import Readiness, Window


class AppsFeature:
    """The feature "apps"; always ready, for applications can be started without a display too."""

    feature = "apps"

    def __init__(self, desktop: Desktop, environ: Mapping[str, str]) -> None:
        self._desktop = desktop
        self._environ = environ

    def readiness(self) -> Readiness:
        return Readiness(True)

    def open(self) -> AppsSession:
        return AppsSession(self._desktop, self._environ)


class AppsSession(DisplaySession):
    """One connection's operations on applications and windows; what was started lives on."""

    def __init__(self, desktop: Desktop, environ: Mapping[str, str]) -> None:
        super().__init__(desktop)
        self._environ = environ

    @property
    def handlers(self) -> Handlers:
        return {requests.LaunchApp: self.launch, requests.Windows: self.windows}

    def launch(self, request: requests.LaunchApp) -> replies.Done:
        """Start an application by its desktop entry."""
        try:
            started = launch(request.name, self._environ)
        except EntryError as error:
            raise RefusalError(BAD_REQUEST, str(error)) from error
        return replies.Done("delivered" if started else "unknown", False)

    def windows(self, request: requests.Windows) -> replies.WindowsReply:
        """List the windows, or act on one and list them then; an act whose effect isn't seen may have happened."""
        if request.action == "list":
            return replies.WindowsReply(self._with(lambda display: display.window_list()))
        done = self._with(lambda display: _arrange(display, request))
        listed: Optional[Tuple[Window, ...]] = None
        # The act is done, whether or not they can be listed afterwards.
        with suppress(RefusalError, DisplayError):
            listed = self._desktop.display().window_list()
        return replies.WindowsReply(listed, "delivered" if done else "unknown", False)


def _arrange(display: Devices, request: requests.Windows) -> bool:
    if request.window is None:
        raise RefusalError(BAD_REQUEST, f"`window` is the id of the window to {request.action}, a number")
    window, frame = window_number(request.window), request.frame
    if request.action == "activate":
        return display.windows.activate(window)
    if request.action == "close":
        return display.windows.close(window)
    if frame is None:
        raise RefusalError(BAD_REQUEST, "`frame` says where to move the window: x, y, and its size or zeros")
    where = place(frame)
    return display.move_window(window, Area(*(round(edge) for edge in (where.x, where.y, where.w, where.h))))
