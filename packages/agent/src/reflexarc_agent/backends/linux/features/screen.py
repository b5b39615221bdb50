"""The feature "screen": pictures of the displays."""

from __future__ import annotations

from typing import Optional, Tuple

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.desktop import SOON, Desktop
from reflexarc_agent.backends.linux.features.session import DisplaySession, place, readiness, window_number
from reflexarc_agent.backends.linux.pictures import Picture, Points, jpeg, png
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST, UNSUPPORTED
from reflexarc_wire.values import Readiness


class ScreenFeature:
    """The feature "screen"."""

    feature = "screen"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(lambda: self._desktop.display(SOON).require("screen"))

    def open(self) -> ScreenSession:
        return ScreenSession(self._desktop)


class ScreenSession(DisplaySession):
    """Pictures of the displays, or of a window."""

    @property
    def handlers(self) -> Handlers:
        return {
            requests.Screenshot: self.screenshot,
            requests.Displays: lambda r: replies.DisplaysReply(
                self._with(lambda display: display.displays())
            ),
            requests.Cursor: lambda r: replies.CursorReply(*self._with(lambda display: display.cursor())),
        }

    def screenshot(self, request: requests.Screenshot) -> replies.ScreenshotReply:
        """A picture, as PNG where JPEG wasn't asked for or can't be made."""
        if request.scale not in (None, 1):
            raise RefusalError(UNSUPPORTED, "this agent doesn't scale pictures: leave out `scale`")
        if request.window is not None and request.display is not None:
            raise RefusalError(BAD_REQUEST, "a picture is of a window or of a display: leave one out")
        window = None if request.window is None else window_number(request.window)
        region = place(request.region) if request.region else None
        points = Points(region.x, region.y, region.w, region.h) if region else None
        shot = self._with(lambda display: display.shot(request.display, points, window))
        image, kind = _encoded(shot.picture, request)
        return replies.ScreenshotReply(image, shot.picture.width, shot.picture.height, shot.scale, kind)


def _encoded(picture: Picture, request: requests.Screenshot) -> Tuple[bytes, Optional[str]]:
    """The picture as it was asked for and the reply's format; PNG where JPEG can't be made."""
    image = jpeg(picture, request.quality or 80) if request.format == "jpeg" else None
    return (png(picture), "png") if image is None else (image, None)
