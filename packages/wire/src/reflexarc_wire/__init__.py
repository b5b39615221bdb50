"""The protocol between a host and the agent inside a guest: messages and bytes, no I/O.

`HostEnd` and `GuestEnd` are the two ends; `docs/wire-protocol.md` is the protocol in words.
"""

from reflexarc_wire.errors import CODES, Id, WireError
from reflexarc_wire.guest import Asked, GuestEnd, Malformed, write_event, write_refusal, write_reply
from reflexarc_wire.host import Answer, HostEnd

VERSION = 3
PORT = 2035

__all__ = [
    "CODES",
    "PORT",
    "VERSION",
    "Answer",
    "Asked",
    "GuestEnd",
    "HostEnd",
    "Id",
    "Malformed",
    "WireError",
    "write_event",
    "write_refusal",
    "write_reply",
]
