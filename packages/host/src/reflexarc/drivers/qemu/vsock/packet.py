"""The packets between a guest's vsock driver and the device.

Source: VIRTIO 1.2, 5.10.6 Socket Device Operation.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from reflexarc.drivers.qemu.vsock.memory import GuestError

REQUEST, RESPONSE, RESET, SHUTDOWN, DATA, CREDIT_UPDATE, CREDIT_REQUEST = range(1, 8)
# Flags of SHUTDOWN: the sender won't receive any more, won't send any more.
NO_RECEIVE, NO_SEND = 1, 2
BOTH = NO_RECEIVE | NO_SEND
STREAM = 1
HOST_CID = 2
# A guest behind a device of its own may have any number that isn't reserved.
GUEST_CID = 3

_HEADER = struct.Struct("<QQIIIHHIII")
HEADER_SIZE = _HEADER.size


class Header(NamedTuple):
    """The head of a packet. window: how much the sender can buffer. forwarded: bytes taken out of that so far."""

    source_cid: int
    target_cid: int
    source_port: int
    target_port: int
    length: int
    kind: int
    operation: int
    flags: int
    window: int
    forwarded: int

    def packed(self) -> bytes:
        return _HEADER.pack(*self)

    def refusal(self) -> bytes:
        """The packet that tells the sender there is no such connection."""
        return Header(
            self.target_cid, self.source_cid, self.target_port, self.source_port, 0, self.kind, RESET, 0, 0, 0
        ).packed()


def reset(host_port: int, guest_port: int) -> bytes:
    """The packet that tells the guest a connection has ended."""
    return Header(HOST_CID, GUEST_CID, host_port, guest_port, 0, STREAM, RESET, 0, 0, 0).packed()


def read_header(pieces: Sequence[memoryview]) -> Header:
    """The head of a packet that lies in pieces; raises GuestError where it isn't all there."""
    first = bytes(pieces[0][:HEADER_SIZE]) if pieces else b""
    if len(first) < HEADER_SIZE:
        first = b"".join(bytes(piece[:HEADER_SIZE]) for piece in pieces)[:HEADER_SIZE]
    if len(first) < HEADER_SIZE:
        raise GuestError(f"a packet of {len(first)} bytes has no head")
    return Header._make(_HEADER.unpack(first))


def write_header(pieces: Sequence[memoryview], header: bytes) -> None:
    """Write a packet's head to the begin of a buffer in pieces that is large enough."""
    for piece in pieces:
        size = min(len(piece), len(header))
        piece[:size] = header[:size]
        header = header[size:]
        if not header:
            return
