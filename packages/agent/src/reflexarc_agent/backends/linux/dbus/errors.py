"""What can go wrong on a bus, by what the caller can do about it."""

from __future__ import annotations


class DBusError(Exception):
    """The root of all errors of a bus."""


class FormatError(DBusError):
    """What was received, or was to be sent, isn't D-Bus; the connection can't go on."""


class BusConnectError(DBusError):
    """The bus couldn't be reached, or refused this user."""


class CallError(DBusError):
    """The other side answered with an error; `name` is its D-Bus name."""

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(f"{name}: {text}" if text else name)
        self.name = name


class NoReplyError(DBusError):
    """No reply came: the deadline passed, or the connection ended. The call may have been carried out."""
