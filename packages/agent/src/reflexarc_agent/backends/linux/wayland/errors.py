"""What can go wrong with a compositor."""

from __future__ import annotations

from reflexarc_agent.backends.linux.errors import DisplayError


class WaylandError(DisplayError):
    """The compositor isn't there, refused something, or broke the protocol."""


class TooLargeError(WaylandError):
    """A text is beyond what is passed on."""

    code = "capped"


class NoAnswerError(WaylandError):
    """Another client doesn't answer."""

    code = "timeout"
