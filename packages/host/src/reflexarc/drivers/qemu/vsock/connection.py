"""One connection between a program of the host and one of the guest: windows, half-closing, what is to be told.

Source: VIRTIO 1.2, 5.10.6.3 Buffer Space Management; 5.10.6.5 Stream Sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

from reflexarc.drivers.qemu.vsock.host import Stream
from reflexarc.drivers.qemu.vsock.memory import GuestError
from reflexarc.drivers.qemu.vsock.packet import (
    BOTH,
    CREDIT_UPDATE,
    DATA,
    GUEST_CID,
    HOST_CID,
    NO_RECEIVE,
    NO_SEND,
    REQUEST,
    RESPONSE,
    SHUTDOWN,
    STREAM,
    Header,
)
from reflexarc.drivers.qemu.vsock.ring import skipped

# How much of the guest's is kept for a host program that doesn't read.
WINDOW = 256 << 10
# How much may be on its way to the guest, whatever it says it can take.
MAX_WINDOW = 1 << 30
_WRAP = 0xFFFFFFFF


class Connection:
    """The state of a connection; it is known by its ports, the host's first.

    is_known: the guest was told of it. host_ended: the host program sends no more; host_deaf: it receives no more.
    queued, stalled, asked: the device's notes: it waits for its turn to say something, the guest can't take more at
    present, the guest was asked whether it can.
    """

    def __init__(self, stream: Stream, host_port: int, guest_port: int, *, by_host: bool) -> None:
        self.stream = stream
        self.key = host_port, guest_port
        self.is_open = not by_host
        self.is_known = not by_host
        self.queued = self.stalled = self.asked = False
        self.host_ended = self.host_deaf = self.is_closed = False
        self.guest_shut = 0
        self._ending = 0
        self._pending = {REQUEST if by_host else RESPONSE}
        self._window = self._taken = self._sent = 0
        self._forwarded = self._told = 0
        self._backlog = bytearray()

    # Towards the guest.

    @property
    def credit(self) -> int:
        """How many bytes the guest can take."""
        return min(self._window, MAX_WINDOW) - self.under_way

    @property
    def under_way(self) -> int:
        """How many bytes the guest has not told to have consumed."""
        return (self._sent - self._taken) & _WRAP

    def hear(self, header: Header) -> bool:
        """Take note of the guest's window; tell whether it consumed something.

        Raises GuestError where it can't be so.
        """
        if (self._sent - header.forwarded) & _WRAP > MAX_WINDOW:
            raise GuestError("it has consumed more than it was sent")
        moved = header.forwarded != self._taken
        self._window, self._taken = header.window, header.forwarded
        return moved

    def data(self, size: int) -> Header:
        """The head of a packet with so many bytes, which thereby count as sent."""
        self._sent = (self._sent + size) & _WRAP
        return self._header(DATA, size)

    def say(self, operation: int) -> None:
        """Note what the guest is to be told."""
        self._pending.add(operation)

    def end_host(self) -> None:
        """The host program sends no more."""
        self.host_ended = True
        self._end(NO_SEND)

    def _end(self, directions: int) -> None:
        if directions & ~self._ending:
            self._ending |= directions
            self._pending.add(SHUTDOWN)

    @property
    def ended(self) -> bool:
        """Whether the guest was told that both directions have ended."""
        return self._ending == BOTH and SHUTDOWN not in self._pending

    @property
    def has_control(self) -> bool:
        """Whether there is something that the guest is to be told."""
        return bool(self._pending)

    @property
    def has_data(self) -> bool:
        """Whether the host program's data can go on to the guest, as far as the two of them are concerned."""
        return self.is_open and not self.host_ended and not self.guest_shut & NO_RECEIVE

    def control(self) -> Header | None:
        """The next packet without data that the guest is to get."""
        if not self._pending:
            return None
        operation = min(self._pending)
        self._pending.discard(operation)
        self.is_known = True
        return self._header(operation, 0, self._ending if operation == SHUTDOWN else 0)

    def _header(self, operation: int, length: int, flags: int = 0) -> Header:
        self._told = self._forwarded
        self._pending.discard(CREDIT_UPDATE)
        host_port, guest_port = self.key
        return Header(
            HOST_CID,
            GUEST_CID,
            host_port,
            guest_port,
            length,
            STREAM,
            operation,
            flags,
            WINDOW,
            self._forwarded,
        )

    # Towards the host.

    def opened(self) -> None:
        """The guest has accepted: say so to the host program, in the words of the convention."""
        self.is_open = True
        self._write([b"OK %d\n" % self.key[0]])

    def deliver(self, pieces: Sequence[memoryview]) -> None:
        """Pass the guest's data on; what the host program doesn't take now is kept.

        Raises GuestError where the guest sent more than our window.
        """
        size = sum(map(len, pieces))
        if not size:
            return
        if len(self._backlog) + size > WINDOW:
            raise GuestError("it sent more than our window")
        if self.guest_shut & NO_SEND:
            raise GuestError("it sent after it had ended")
        written = 0
        if not self._backlog:
            written = self._write(pieces)
        if self.host_deaf:
            self._forward(size)
            return
        self._forward(written)
        for piece in skipped(pieces, written, size):
            self._backlog += piece

    def flush(self) -> None:
        """Pass on what was kept, as far as the host program takes it now."""
        if self._backlog:
            with memoryview(self._backlog) as kept:
                written = self._write([kept])
            if self.host_deaf:
                return
            self._forward(written)
            del self._backlog[:written]
            if self._backlog:
                return
        if self.guest_shut & NO_SEND:
            self.stream.end_writing()

    def lose_host(self) -> None:
        """The host program receives no more: what was kept for it is dropped, as will be what comes."""
        self.host_deaf = True
        self._forward(len(self._backlog))
        # Not cleared: it is lent to the stream where its write is what failed.
        self._backlog = bytearray()
        self._end(NO_RECEIVE)

    @property
    def backlog(self) -> int:
        """How many bytes are kept for the host program."""
        return len(self._backlog)

    def shut(self, directions: int) -> None:
        """The guest will not receive, or not send, any more."""
        self.guest_shut |= directions & BOTH
        if self.guest_shut & NO_RECEIVE and not self.is_closed:
            self.stream.end_reading()
        if not self._backlog and not self.host_deaf:
            self.flush()

    def watch(self) -> None:
        """Ask to be told of what this connection can use now."""
        if self.is_closed:
            return
        reading = self.has_data and not self.queued and not self.stalled
        self.stream.watch(reading=reading, writing=bool(self._backlog))

    def close(self) -> None:
        """Close the host's end; closing it twice is fine."""
        if not self.is_closed:
            self.is_closed = True
            self.stream.close()

    def _write(self, pieces: Sequence[memoryview | bytes]) -> int:
        if self.host_deaf:
            return 0
        try:
            return self.stream.write(pieces)
        except OSError:
            self.lose_host()
            return 0

    def _forward(self, size: int) -> None:
        self._forwarded = (self._forwarded + size) & _WRAP
        if (self._forwarded - self._told) & _WRAP >= WINDOW // 2:
            self._pending.add(CREDIT_UPDATE)
