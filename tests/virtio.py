"""A guest's vsock driver, as far as tests need one, in a memory that it shares with a device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from reflexarc.drivers.qemu.vsock.memory import Memory, Region
from reflexarc.drivers.qemu.vsock.packet import (
    GUEST_CID,
    HEADER_SIZE,
    HOST_CID,
    STREAM,
    Header,
    read_header,
)
from reflexarc.drivers.qemu.vsock.ring import Addresses, Ring

GUEST_BASE, USER_BASE = 0x4000_0000, 0x7F00_0000_0000
MEMORY_SIZE = 1 << 18
RING_SIZE = 16
BUFFER_SIZE = 1024
NEXT, WRITE, INDIRECT = 1, 2, 4
_DESCRIPTOR = struct.Struct("<QIHH")

Piece = tuple[int, int, int]


class DriverRing:
    """A virtqueue from the driver's side; `at` is where it lies in the memory."""

    def __init__(self, view: memoryview, at: int, size: int = RING_SIZE) -> None:
        self.size = size
        self._view = view
        self._at = at
        self._available = at + 16 * size
        self._used = (self._available + 4 + 2 * size + 3) & ~3
        self._seen = 0
        view[at : self.end] = bytes(self.end - at)

    @property
    def end(self) -> int:
        """Where the memory is free again."""
        return self._used + 4 + 8 * self.size

    @property
    def addresses(self) -> Addresses:
        return Addresses(USER_BASE + self._at, USER_BASE + self._available, USER_BASE + self._used)

    def describe(self, index: int, address: int, length: int, flags: int, following: int) -> None:
        """Write a descriptor."""
        _DESCRIPTOR.pack_into(self._view, self._at + 16 * index, address, length, flags, following)

    def offer(self, *heads: int, step: int = 1) -> None:
        """Make chains available; step: how far the index moves for each."""
        index = self.index
        for head in heads:
            struct.pack_into("<H", self._view, self._available + 4 + 2 * (index % self.size), head)
            index += step
        struct.pack_into("<H", self._view, self._available + 2, index & 0xFFFF)

    @property
    def index(self) -> int:
        return int(struct.unpack_from("<H", self._view, self._available + 2)[0])

    def given_back(self) -> list[tuple[int, int]]:
        """The chains that came back since the last call, each with how much was written."""
        (index,) = struct.unpack_from("<H", self._view, self._used + 2)
        found = []
        while self._seen != index:
            at = self._used + 4 + 8 * (self._seen % self.size)
            found.append(struct.unpack_from("<II", self._view, at))
            self._seen = (self._seen + 1) & 0xFFFF
        return [(int(head), int(written)) for head, written in found]


class Driver:
    """Both rings of a guest, with buffers of its own; `buffers` of them are offered to receive by."""

    def __init__(self, view: memoryview | None = None, buffers: int = RING_SIZE) -> None:
        self.view = memoryview(bytearray(MEMORY_SIZE)) if view is None else view
        self.receiving = DriverRing(self.view, 0x1000)
        self.sending = DriverRing(self.view, 0x2000)
        for index in range(RING_SIZE):
            self.receiving.describe(index, GUEST_BASE + self._buffer(index), BUFFER_SIZE, WRITE, 0)
        self._free = list(range(0, RING_SIZE, 2))
        self.receiving.offer(*range(buffers))

    @staticmethod
    def _buffer(index: int) -> int:
        return 0x4000 + index * BUFFER_SIZE

    @staticmethod
    def _outgoing(head: int) -> int:
        return 0x10000 + head * 0x2000

    @property
    def memory(self) -> Memory:
        return Memory([Region(GUEST_BASE, USER_BASE, self.view)])

    def rings(self) -> tuple[Ring, Ring]:
        """The device's side of them, as they are at the start."""
        return tuple(  # type: ignore[return-value]
            Ring(self.memory, RING_SIZE, ring.addresses, 0) for ring in (self.receiving, self.sending)
        )

    def send(self, header: Header, data: bytes = b"") -> bool:
        """Send a packet, head and data apart; False where the ring is full."""
        self._free += [head for head, _ in self.sending.given_back()]
        if not self._free:
            return False
        head = self._free.pop(0)
        at = self._outgoing(head)
        self.view[at : at + HEADER_SIZE] = header.packed()
        self.view[at + 64 : at + 64 + len(data)] = data
        self.sending.describe(head, GUEST_BASE + at, HEADER_SIZE, NEXT if data else 0, head + 1)
        self.sending.describe(head + 1, GUEST_BASE + at + 64, len(data), 0, 0)
        self.sending.offer(head)
        return True

    def received(self, *, again: bool = True) -> list[tuple[Header, bytes]]:
        """The packets that came, their buffers offered again unless told otherwise; unused buffers are passed over."""
        found = []
        for head, written in self.receiving.given_back():
            at = self._buffer(head)
            packet = self.view[at : at + written]
            if written:
                found.append((read_header([packet]), bytes(packet[HEADER_SIZE:])))
            if again:
                self.receiving.offer(head)
        return found


def packet(
    operation: int,
    guest_port: int,
    host_port: int,
    *,
    length: int = 0,
    flags: int = 0,
    window: int = 1 << 16,
    forwarded: int = 0,
) -> Header:
    """The head of a packet from the guest."""
    return Header(
        GUEST_CID, HOST_CID, guest_port, host_port, length, STREAM, operation, flags, window, forwarded
    )


@dataclass(eq=False)
class Program:
    """A host program's end of a connection, without a socket; implements `Stream`.

    says: what it writes. room: how many bytes it takes before it stops reading. ends, leaves: it half-closes, closes.
    """

    says: bytearray = field(default_factory=bytearray)
    room: int = 1 << 30
    ends: bool = False
    leaves: bool = False
    heard: bytearray = field(default_factory=bytearray)
    heard_end: bool = False
    refused: bool = False
    closed: bool = False
    reading: bool = False
    writing: bool = False

    def read_into(self, views: Sequence[memoryview]) -> int | None:
        assert not self.closed
        if not self.says:
            return 0 if self.ends or self.leaves else None
        count = 0
        for view in views:
            piece = bytes(self.says[: len(view)])
            view[: len(piece)] = piece
            del self.says[: len(piece)]
            count += len(piece)
        return count

    def write(self, views: Sequence[memoryview | bytes]) -> int:
        assert not self.closed
        if self.leaves:
            raise BrokenPipeError
        data = b"".join(views)[: self.room]
        self.room -= len(data)
        self.heard += data
        return len(data)

    def watch(self, *, reading: bool, writing: bool) -> None:
        assert not self.closed
        self.reading, self.writing = reading, writing

    def gone(self) -> bool:
        return self.leaves

    def end_writing(self) -> None:
        self.heard_end = True

    def end_reading(self) -> None:
        self.refused = True

    def close(self) -> None:
        assert not self.closed
        self.closed = True
