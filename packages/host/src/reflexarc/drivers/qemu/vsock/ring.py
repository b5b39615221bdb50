"""A virtqueue, the device's side of it.

The guest may change any of it at any time, so everything is read once, then checked, then used. Indexes are read and
written as native 16-bit numbers, in one access each; that the guest sees an entry before the index that covers it
rests on the processor keeping stores in order, as x86 does.
Source: VIRTIO 1.2, 2.7 Split Virtqueues.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from reflexarc.drivers.qemu.vsock.memory import GuestError, Memory

MAX_SIZE = 1024
_DESCRIPTOR = struct.Struct("<QIHH")
_NEXT, _WRITE, _INDIRECT = 1, 2, 4
_WRAP = 0xFFFF


class Addresses(NamedTuple):
    """Where the parts of a ring are, as addresses of QEMU's."""

    descriptors: int
    available: int
    used: int


class Chain(NamedTuple):
    """A buffer of the guest's, in pieces: what the device may read, and what it may write."""

    head: int
    readable: Sequence[memoryview]
    writable: Sequence[memoryview]


class Ring:
    """A ring of `size` descriptors; `upcoming` is the index of the chain to be taken next."""

    def __init__(self, memory: Memory, size: int, addresses: Addresses, upcoming: int) -> None:
        if not 0 < size <= MAX_SIZE or size & (size - 1):
            raise GuestError(f"a ring can't have {size} descriptors")
        if addresses.descriptors % 16 or addresses.available % 2 or addresses.used % 4:
            raise GuestError("the parts of a ring are not aligned")
        self.size = size
        self.upcoming = upcoming & _WRAP
        self.unannounced = False
        self._memory = memory
        self._descriptors = memory.at_user(addresses.descriptors, 16 * size)
        self._available = memory.at_user(addresses.available, 4 + 2 * size).cast("H")
        used = memory.at_user(addresses.used, 4 + 8 * size)
        self._used_index = used[:4].cast("H")
        self._used = used[4:].cast("I")
        self._given = self._used_index[1]

    def waiting(self) -> int:
        """How many chains can be taken; raises GuestError where the ring can't be used any more."""
        count: int = (self._available[1] - self.upcoming) & _WRAP
        if count > self.size:
            raise GuestError(f"{count} chains are offered in a ring of {self.size}")
        return count

    def take(self) -> Chain | None:
        """Take the next chain of those that wait; None for a malformed one, which is given back unused."""
        head = self._available[2 + self.upcoming % self.size]
        self.upcoming = (self.upcoming + 1) & _WRAP
        try:
            return self._walk(head)
        except GuestError:
            if head < self.size:
                self.give(head, 0)
            return None

    def put_back(self) -> None:
        """Undo the last `take`."""
        self.upcoming = (self.upcoming - 1) & _WRAP

    def give(self, head: int, written: int) -> None:
        """Give a chain back to the guest with so many bytes written into it."""
        at = 2 * (self._given % self.size)
        self._used[at] = head
        self._used[at + 1] = written
        self._given = (self._given + 1) & _WRAP
        self._used_index[1] = self._given
        self.unannounced = True

    def _walk(self, index: int) -> Chain:
        head, table, count = index, self._descriptors, self.size
        readable: list[memoryview] = []
        writable: list[memoryview] = []
        for _ in range(self.size + 1):
            if index >= count:
                raise GuestError("a chain leaves its table")
            address, length, flags, following = _DESCRIPTOR.unpack_from(table, 16 * index)
            if flags & _INDIRECT:
                if table is not self._descriptors or flags & _NEXT or length % 16:
                    raise GuestError("an indirect table is malformed")
                table, count, index = self._memory.at_guest(address, length), length // 16, 0
                continue
            view = self._memory.at_guest(address, length)
            if flags & _WRITE:
                writable.append(view)
            elif writable:
                raise GuestError("what is to be read comes after what is to be written")
            else:
                readable.append(view)
            if not flags & _NEXT:
                return Chain(head, readable, writable)
            index = following
        raise GuestError("a chain has no end")


def skipped(views: Sequence[memoryview], count: int, size: int) -> list[memoryview]:
    """What comes after the first `count` bytes of a buffer in pieces, `size` bytes at most."""
    rest = []
    for view in views:
        piece = view[count : count + size]
        count = max(0, count - len(view))
        size -= len(piece)
        if piece:
            rest.append(piece)
    return rest
