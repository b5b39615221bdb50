"""What can go wrong with an X server."""

from __future__ import annotations

from reflexarc_agent.backends.linux.errors import DisplayError


class X11Error(DisplayError):
    """The X server, or a library of it, isn't there or refused something."""
