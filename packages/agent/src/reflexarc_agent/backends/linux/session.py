"""What the sessions on a display have in common, whichever it is."""

from __future__ import annotations

from typing import Callable, Generic, Optional, Tuple, TypeVar

from reflexarc_agent.backend import RefusalError
from reflexarc_agent.backends.linux.errors import DisplayError, NotOfferedError
from reflexarc_agent.backends.linux.pictures import Picture, jpeg, png
from reflexarc_wire import replies, requests
from reflexarc_wire.errors import UNSUPPORTED
from reflexarc_wire.values import Readiness

D = TypeVar("D")
T = TypeVar("T")


class DisplaySession(Generic[D]):
    """One connection's operations on a display, which `display` opens when it is first needed."""

    def __init__(self, display: Callable[[], D]) -> None:
        self._display = display

    def _with(self, act: Callable[[D], T]) -> T:
        try:
            return act(self._display())
        except DisplayError as error:
            raise RefusalError(error.code, str(error)) from error

    def _act(self, act: Callable[[D], object]) -> replies.Done:
        self._with(act)
        return replies.Done("delivered", False)

    def close(self) -> None:
        """Nothing is kept for a connection."""


def readiness(ask: Callable[[], object], grant: str) -> Readiness:
    """Whether what is asked for can be used; `grant` helps where it isn't there, not where it isn't offered."""
    try:
        ask()
    except NotOfferedError as error:
        return Readiness(False, str(error))
    except (RefusalError, DisplayError) as refusal:
        return Readiness(False, str(refusal), grant)
    return Readiness(True)


def unscaled(request: requests.Screenshot) -> None:
    """Refuse to scale."""
    if request.scale not in (None, 1):
        raise RefusalError(UNSUPPORTED, "this agent doesn't scale pictures: leave out `scale`")


def encoded(picture: Picture, request: requests.Screenshot) -> Tuple[bytes, Optional[str]]:
    """The picture as it was asked for and the reply's format; PNG where JPEG can't be made."""
    image = jpeg(picture, request.quality or 80) if request.format == "jpeg" else None
    return (png(picture), "png") if image is None else (image, None)
