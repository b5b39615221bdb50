"""What the features that need a display have in common."""

from __future__ import annotations

from typing import Callable, TypeVar

from reflexarc_agent.backend import RefusalError
from reflexarc_agent.backends.linux.desktop import Desktop, Devices
from reflexarc_agent.backends.linux.errors import DisplayError, NotOfferedError
from reflexarc_wire import replies
from reflexarc_wire.errors import BAD_REQUEST
from reflexarc_wire.values import Key, Readiness, Rect

T = TypeVar("T")
GRANT = "run the agent inside the desktop session of the user"
FAR = 1_000_000


class DisplaySession:
    """One connection's operations on the display that there is when they are asked for."""

    def __init__(self, desktop: Desktop) -> None:
        self._desktop = desktop

    def _with(self, act: Callable[[Devices], T]) -> T:
        try:
            return act(self._desktop.display())
        except DisplayError as error:
            raise RefusalError(error.code, str(error)) from error

    def _act(self, act: Callable[[Devices], object]) -> replies.Done:
        self._with(act)
        return replies.Done("delivered", False)

    def close(self) -> None:
        """Nothing is kept for a connection."""


def readiness(ask: Callable[[], object], grant: str = GRANT) -> Readiness:
    """Whether what is asked for can be used; `grant` helps where it isn't there, not where it isn't offered."""
    try:
        ask()
    except NotOfferedError as error:
        return Readiness(False, str(error))
    except (RefusalError, DisplayError) as refusal:
        return Readiness(False, str(refusal), grant)
    return Readiness(True)


def window_number(key: Key) -> int:
    """The number of a window; refuses what can't be one."""
    if not isinstance(key, int) or not 0 < key < 1 << 32:
        raise RefusalError(BAD_REQUEST, f"a window of this desktop is a number, not {str(key)[:40]!r}")
    return key


def place(rect: Rect) -> Rect:
    """The rectangle; refuses such as no screen has."""
    if not all(abs(edge) < FAR for edge in (rect.x, rect.y, rect.w, rect.h)):
        raise RefusalError(BAD_REQUEST, f"{rect} is no place of a screen")
    return rect
