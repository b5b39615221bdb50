"""The messages of vhost-user, by which QEMU tells a device in another process of the guest's memory and rings.

Source: QEMU, docs/interop/vhost-user.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reflexarc.drivers.qemu.vsock.memory import GuestError

GET_FEATURES, SET_FEATURES, SET_OWNER, RESET_OWNER, SET_MEM_TABLE = range(1, 6)
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = range(8, 12)
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = range(12, 15)
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = range(15, 19)
GET_CONFIG, SET_CONFIG = 24, 25

# Bits of a descriptor's message: the ring's number, and that no descriptor comes with it.
RING_MASK, NO_DESCRIPTOR = 0xFF, 0x100
MAX_REGIONS = 8
MAX_CONFIG = 256

_HEAD = struct.Struct("<III")
_VERSION, _REPLY, _NEED_REPLY = 1, 4, 8
_REGION = struct.Struct("<QQQQ")
_REGIONS = struct.Struct("<II")
_U64 = struct.Struct("<Q")
_PAIR = struct.Struct("<II")
_ADDRESSES = struct.Struct("<IIQQQQ")
_CONFIG = struct.Struct("<III")

# The sizes of what follows the head; the two that vary are bounded.
_SIZES: Mapping[int, int] = {
    GET_FEATURES: 0, SET_FEATURES: 8, SET_OWNER: 0, RESET_OWNER: 0, SET_VRING_NUM: 8, SET_VRING_ADDR: 40,
    SET_VRING_BASE: 8, GET_VRING_BASE: 8, SET_VRING_KICK: 8, SET_VRING_CALL: 8, SET_VRING_ERR: 8,
    GET_PROTOCOL_FEATURES: 0, SET_PROTOCOL_FEATURES: 8, GET_QUEUE_NUM: 0, SET_VRING_ENABLE: 8,
}  # fmt: skip
_BOUNDS: Mapping[int, tuple[int, int]] = {
    SET_MEM_TABLE: (_REGIONS.size, _REGIONS.size + MAX_REGIONS * _REGION.size),
    GET_CONFIG: (_CONFIG.size, _CONFIG.size + MAX_CONFIG),
    SET_CONFIG: (_CONFIG.size, _CONFIG.size + MAX_CONFIG),
}


@dataclass(frozen=True)
class Place:
    """A region of the guest's memory: its addresses for the guest and for QEMU, and where it is in its file."""

    guest: int
    size: int
    user: int
    offset: int


@dataclass
class Message:
    """A request. Its descriptors belong to whom takes them out; whoever holds it closes the others."""

    request: int
    needs_reply: bool
    payload: bytes
    descriptors: list[int] = field(default_factory=list)

    def number(self) -> int:
        """The payload of a request that carries one number."""
        return int(_U64.unpack(self.payload)[0])

    def pair(self) -> tuple[int, int]:
        """A ring's number, and what is said of it."""
        index, value = _PAIR.unpack(self.payload)
        return index, value

    def addresses(self) -> tuple[int, int, int, int]:
        """A ring's number, and the addresses of its descriptors, used and available part."""
        index, _, descriptors, used, available, _ = _ADDRESSES.unpack(self.payload)
        return index, descriptors, used, available

    def places(self) -> list[Place]:
        """The regions of a memory table, one for each descriptor; raises GuestError where that isn't so."""
        count, _ = _REGIONS.unpack_from(self.payload)
        if len(self.payload) != _REGIONS.size + count * _REGION.size or len(self.descriptors) != count:
            raise GuestError(f"a table of {count} regions has {len(self.descriptors)} descriptors")
        found = [Place(*numbers) for numbers in _REGION.iter_unpack(self.payload[_REGIONS.size :])]
        if any(max(place.guest, place.user, place.offset) + place.size >= 1 << 64 for place in found):
            raise GuestError("a region of the memory goes beyond the last address")
        return found

    def config(self) -> tuple[int, int]:
        """Offset and size of what is asked of the device's configuration; raises GuestError beyond its end."""
        offset, size, _ = _CONFIG.unpack_from(self.payload)
        if offset + size > MAX_CONFIG or len(self.payload) != _CONFIG.size + size:
            raise GuestError("what is asked of the configuration goes beyond its end")
        return offset, size

    def config_reply(self, content: bytes) -> bytes:
        """The payload that answers a request for the configuration."""
        return self.payload[: _CONFIG.size] + content

    def reply(self, payload: bytes) -> bytes:
        return _HEAD.pack(self.request, _VERSION | _REPLY, len(payload)) + payload


def number(value: int) -> bytes:
    """The payload of a reply that is one number."""
    return _U64.pack(value)


def state(index: int, upcoming: int) -> bytes:
    """The payload of a reply that tells where a ring stands."""
    return _PAIR.pack(index, upcoming)


class Reader:
    """Puts messages together from what arrives; `wanted` is how many bytes the present one lacks.

    Never feed it more than that: descriptors arrive with the bytes of their own message.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._descriptors: list[int] = []
        self._size = _HEAD.size

    @property
    def wanted(self) -> int:
        return self._size - len(self._bytes)

    @property
    def pending(self) -> Sequence[int]:
        """Descriptors of a message that isn't there as a whole yet."""
        return self._descriptors

    def feed(self, arrived: bytes, descriptors: Sequence[int]) -> Message | None:
        """Take what arrived and return the message if that completes it; raises GuestError for none of ours."""
        self._bytes += arrived
        self._descriptors += descriptors
        if len(self._bytes) == _HEAD.size == self._size:
            self._size += self._announced()
        if self.wanted:
            return None
        request, flags, _ = _HEAD.unpack_from(self._bytes)
        message = Message(request, bool(flags & _NEED_REPLY), self._bytes[_HEAD.size :], self._descriptors)
        self._bytes, self._descriptors, self._size = b"", [], _HEAD.size
        return message

    def _announced(self) -> int:
        """The size of what follows the head."""
        request, flags, size = _HEAD.unpack(self._bytes)
        low, high = _BOUNDS.get(request, (_SIZES.get(request, -1),) * 2)
        if flags & 3 != _VERSION or not low <= size <= high:
            raise GuestError(f"request {request} with flags {flags:#x} and {size} bytes is none of ours")
        return int(size)
