"""QEMU's side of the device: what it tells of the guest's memory and rings, from its connection to the end of it."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from reflexarc.drivers.qemu.vsock import message as vhost
from reflexarc.drivers.qemu.vsock.device import Device
from reflexarc.drivers.qemu.vsock.loop import READABLE, Loop
from reflexarc.drivers.qemu.vsock.memory import GuestError, Memory, Region
from reflexarc.drivers.qemu.vsock.message import Message, Place
from reflexarc.drivers.qemu.vsock.packet import GUEST_CID
from reflexarc.drivers.qemu.vsock.ring import Addresses, Ring

_INDIRECT, _PROTOCOL, _VERSION_1 = 1 << 28, 1 << 30, 1 << 32
FEATURES = _INDIRECT | _PROTOCOL | _VERSION_1
_MULTIQUEUE, _REPLY_ACK, _CONFIG = 1 << 0, 1 << 3, 1 << 9
PROTOCOL_FEATURES = _MULTIQUEUE | _REPLY_ACK | _CONFIG
# The guest receives by the first and sends by the second; the third, for events, stays with QEMU.
RINGS = 2
# Source: Linux, include/uapi/linux/fcntl.h.
_GET_SEALS, _SEAL_SHRINK = 1034, 2
_ONE = (1).to_bytes(8, "little")


@dataclass
class _Queue:
    """What QEMU told of a ring; it runs while all of that is there."""

    size: int = 0
    upcoming: int = 0
    addresses: Addresses | None = None
    is_enabled: bool = False
    kick: int | None = None
    call: int | None = None
    ring: Ring | None = None


class FrontEnd:
    """A connection of QEMU's; `ended` is called once, when it is closed and all that came by it is given back."""

    def __init__(
        self,
        connection: socket.socket,
        device: Device,
        loop: Loop,
        *,
        note: Callable[[str], None],
        ended: Callable[[], None],
    ) -> None:
        self._socket = connection
        self._device = device
        self._loop = loop
        self._note = note
        self._ended = ended
        self._reader = vhost.Reader()
        self._memory: Memory | None = None
        self._queues = tuple(_Queue() for _ in range(RINGS))
        self._needs_enabling = False
        connection.setblocking(False)
        loop.watch(connection.fileno(), READABLE, self._arrived)

    def close(self) -> None:
        """End it: the rings stop, and descriptors and memory are given back."""
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        _close(self._reader.pending)
        for queue in self._queues:
            self._set_kick(queue, None)
            self._set_call(queue, None)
            queue.ring = None
        self._tell()
        self._memory = None
        self._ended()

    def announce(self) -> None:
        """Tell the guest of the buffers that it was given back."""
        for queue in self._queues:
            if queue.ring is not None and queue.ring.unannounced:
                queue.ring.unannounced = False
                if queue.call is not None:
                    with suppress(OSError):
                        os.write(queue.call, _ONE)

    def _arrived(self, _: int) -> None:
        try:
            if not self._receive():
                self.close()
        except (OSError, GuestError) as error:
            self._note(f"QEMU's connection is closed: {error}")
            self.close()

    def _receive(self) -> bool:
        """Take what has arrived; False at the end of the connection."""
        try:
            arrived, descriptors, flags, _ = socket.recv_fds(
                self._socket, self._reader.wanted, vhost.MAX_REGIONS
            )
        except BlockingIOError:
            return True
        if flags & socket.MSG_CTRUNC:
            _close(descriptors)
            raise GuestError("a message comes with too many descriptors")
        request = self._reader.feed(arrived, descriptors)
        if request is not None:
            self._answer(request)
        return bool(arrived)

    def _answer(self, request: Message) -> None:
        try:
            payload = self.handle(request)
        finally:
            _close(request.descriptors)
        if payload is None and request.needs_reply:
            payload = vhost.number(0)
        if payload is not None:
            self._socket.sendall(request.reply(payload))

    def handle(self, request: Message) -> bytes | None:
        """Do what a request says; return the payload of its reply, None where it has none of its own.

        Raises GuestError where it can't be done; OSError where a descriptor is not what it should be.
        """
        match request.request:
            case vhost.GET_FEATURES:
                return vhost.number(FEATURES)
            case vhost.GET_PROTOCOL_FEATURES:
                return vhost.number(PROTOCOL_FEATURES)
            case vhost.GET_QUEUE_NUM:
                return vhost.number(RINGS)
            case vhost.GET_CONFIG:
                offset, size = request.config()
                config = vhost.number(GUEST_CID).ljust(vhost.MAX_CONFIG, b"\0")
                return request.config_reply(config[offset : offset + size])
            case vhost.GET_VRING_BASE:
                return self._stop(request)
            case _:
                self._set(request)
                return None

    def _set(self, request: Message) -> None:
        match request.request:
            case vhost.SET_FEATURES:
                self._needs_enabling = bool(request.number() & _PROTOCOL)
            case vhost.SET_MEM_TABLE:
                self._memory = _mapped(request)
            case vhost.SET_VRING_NUM | vhost.SET_VRING_BASE | vhost.SET_VRING_ENABLE | vhost.SET_VRING_ADDR:
                self._set_ring(request)
                return
            case vhost.SET_VRING_KICK | vhost.SET_VRING_CALL:
                self._set_descriptor(request)
                return
        for queue in self._queues:
            self._apply(queue)

    def _set_ring(self, request: Message) -> None:
        if request.request == vhost.SET_VRING_ADDR:
            index, descriptors, used, available = request.addresses()
            queue = self._queue(index)
            queue.addresses = Addresses(descriptors, available, used)
        else:
            index, value = request.pair()
            queue = self._queue(index)
            if request.request == vhost.SET_VRING_NUM:
                queue.size = value
            elif request.request == vhost.SET_VRING_BASE:
                queue.upcoming, queue.ring = value, None
            else:
                queue.is_enabled = bool(value)
        self._apply(queue)

    def _set_descriptor(self, request: Message) -> None:
        number = request.number()
        queue = self._queue(number & vhost.RING_MASK)
        descriptor = None if number & vhost.NO_DESCRIPTOR else _event(request)
        if request.request == vhost.SET_VRING_CALL:
            self._set_call(queue, descriptor)
        else:
            self._set_kick(queue, descriptor)
            self._apply(queue)

    def _stop(self, request: Message) -> bytes:
        index, _ = request.pair()
        queue = self._queue(index)
        self._set_kick(queue, None)
        self._apply(queue)
        return vhost.state(index, queue.upcoming)

    def _queue(self, index: int) -> _Queue:
        if index >= RINGS:
            raise GuestError(f"there is no ring {index}")
        return self._queues[index]

    def _apply(self, queue: _Queue) -> None:
        """Start, stop or change a ring as what is known of it says."""
        if queue.ring is not None:
            queue.upcoming, queue.ring = queue.ring.upcoming, None
        is_enabled = queue.is_enabled or not self._needs_enabling
        if self._memory and queue.addresses and queue.kick is not None and queue.size and is_enabled:
            queue.ring = Ring(self._memory, queue.size, queue.addresses, queue.upcoming)
        self._tell()

    def _tell(self) -> None:
        receiving, sending = self._queues
        self._device.start(receiving=receiving.ring, sending=sending.ring)

    def _set_kick(self, queue: _Queue, descriptor: int | None) -> None:
        if queue.kick is not None:
            self._loop.forget(queue.kick)
            os.close(queue.kick)
        queue.kick = descriptor
        if descriptor is not None:
            self._loop.watch(descriptor, READABLE, lambda _: _clear(descriptor))

    def _set_call(self, queue: _Queue, descriptor: int | None) -> None:
        if queue.call is not None:
            os.close(queue.call)
        queue.call = descriptor


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _clear(event: int) -> None:
    with suppress(OSError):
        os.read(event, 8)


def _event(request: Message) -> int:
    """Take the eventfd that came with a request."""
    if len(request.descriptors) != 1:
        raise GuestError(f"{len(request.descriptors)} descriptors came where one belongs")
    (descriptor,) = request.descriptors
    if os.readlink(f"/proc/self/fd/{descriptor}") != "anon_inode:[eventfd]":
        raise GuestError("a descriptor is no eventfd")
    os.set_blocking(descriptor, False)
    request.descriptors.clear()
    return descriptor


def _mapped(request: Message) -> Memory:
    pairs = zip(request.places(), request.descriptors, strict=True)
    return Memory([_region(place, descriptor) for place, descriptor in pairs])


def _region(place: Place, descriptor: int) -> Region:
    """Map a region; only a file that can't shrink: touching what was cut off would end this process."""
    if not fcntl.fcntl(descriptor, _GET_SEALS) & _SEAL_SHRINK:
        raise GuestError("the memory's file may shrink")
    if not place.size or place.size + place.offset > os.fstat(descriptor).st_size:
        raise GuestError("the memory's file is too small")
    try:
        mapped = mmap.mmap(descriptor, place.size, offset=place.offset)
    except (OSError, ValueError, OverflowError) as error:
        raise GuestError(f"memory can't be mapped: {error}") from error
    return Region(place.guest, place.user, memoryview(mapped))
