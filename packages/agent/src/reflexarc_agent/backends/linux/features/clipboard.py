"""The feature "clipboard"; what was put there stays while the agent and its display live."""

from __future__ import annotations

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_agent.backends.linux.desktop import SOON, Desktop
from reflexarc_agent.backends.linux.features.session import DisplaySession, readiness
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import BAD_REQUEST
from reflexarc_wire.values import Readiness


class ClipboardFeature:
    """The feature "clipboard"."""

    feature = "clipboard"

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def readiness(self) -> Readiness:
        return readiness(lambda: self._desktop.display(SOON).require("clipboard"))

    def open(self) -> ClipboardSession:
        return ClipboardSession(self._desktop)


class ClipboardSession(DisplaySession):
    """Reads and sets the clipboard's text."""

    @property
    def handlers(self) -> Handlers:
        return {requests.Clipboard: self.clipboard}

    def clipboard(self, request: requests.Clipboard) -> replies.ClipboardReply:
        """The text, or nothing once it is set."""
        text = request.text
        if request.action == "get":
            return replies.ClipboardReply(self._with(lambda display: display.clipboard.get()))
        if text is None:
            raise RefusalError(BAD_REQUEST, "`text` is what to put on the clipboard")
        self._with(lambda display: display.clipboard.set(text))
        return replies.ClipboardReply()
