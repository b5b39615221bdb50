"""The vsock device: between a guest's two rings and the programs of the host.

It knows no socket and no clock of its own. All that it does happens in `work`, in portions, so that neither a guest
nor a host program that never pauses keeps the others from their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from reflexarc.drivers.qemu.vsock.connection import Connection
from reflexarc.drivers.qemu.vsock.host import Host, Stream
from reflexarc.drivers.qemu.vsock.memory import GuestError
from reflexarc.drivers.qemu.vsock.packet import (
    BOTH,
    CREDIT_REQUEST,
    CREDIT_UPDATE,
    DATA,
    GUEST_CID,
    HEADER_SIZE,
    HOST_CID,
    NO_RECEIVE,
    NO_SEND,
    REQUEST,
    RESET,
    RESPONSE,
    SHUTDOWN,
    STREAM,
    Header,
    read_header,
    reset,
    write_header,
)
from reflexarc.drivers.qemu.vsock.ring import Ring, skipped

MAX_CONNECTIONS = 1000
# As long as so many refusals wait for room in the guest's ring, it is not listened to.
MAX_REFUSALS = 256
CONNECT_PATIENCE = 5.0
# How long a guest may keep what the host wrote before it ended; as long again as it goes on reading.
LINGER = 30.0
ANSWER_PATIENCE = 2.0
# Host ports begin where no guest program listens by custom.
FIRST_PORT = 1 << 30


class Device:
    """A vsock device without a guest at first; `note` is told what a guest did wrong."""

    def __init__(
        self,
        host: Host,
        clock: Callable[[], float],
        note: Callable[[str], None],
        limit: int = MAX_CONNECTIONS,
    ) -> None:
        self._host = host
        self._clock = clock
        self._note = note
        self._limit = limit
        self._receiving: Ring | None = None
        self._sending: Ring | None = None
        self._connections: dict[tuple[int, int], Connection] = {}
        self._streams: dict[Stream, Connection] = {}
        self._deadlines: dict[Connection, float] = {}
        self._speakers: deque[Connection] = deque()
        self._refusals: deque[bytes] = deque()
        self._lost: list[tuple[int, int]] = []
        self._next_port = FIRST_PORT

    # The guest's driver comes and goes.

    def start(self, *, receiving: Ring | None, sending: Ring | None) -> None:
        """Use these rings from now on; without any, all connections end."""
        if receiving is not None and self._receiving is None:
            self._refusals.extend(reset(*key) for key in self._lost)
            self._lost.clear()
        self._receiving, self._sending = receiving, sending
        if receiving is None and sending is None:
            self._forget()

    @property
    def is_ready(self) -> bool:
        """Whether a guest's driver is there."""
        return self._receiving is not None and self._sending is not None

    def __len__(self) -> int:
        """How many connections there are, those included that only have to be delivered or answered yet."""
        return max(len(self._connections), len(self._streams))

    def _forget(self) -> None:
        """End all connections; a guest that was only stopped learns of it when it goes on."""
        for connection in list(self._connections.values()):
            if connection.is_known:
                self._lost.append(connection.key)
            self._finish(connection)
        self._speakers.clear()
        self._refusals.clear()

    # Host programs.

    def open(self, stream: Stream, port: int) -> bool:
        """Connect a host program to a port of the guest; False where that can't be tried."""
        if not self.is_ready or len(self) >= self._limit:
            return False
        while (self._next_port, port) in self._connections:
            self._step_port()
        connection = Connection(stream, self._next_port, port, by_host=True)
        self._step_port()
        self._deadlines[connection] = self._clock() + CONNECT_PATIENCE
        self._keep(connection)
        return True

    def readable(self, stream: Stream) -> None:
        """A host program has written."""
        if connection := self._streams.get(stream):
            self._queue(connection)

    def writable(self, stream: Stream) -> None:
        """A host program has read."""
        if connection := self._streams.get(stream):
            connection.flush()
            self._after(connection)

    def hung_up(self, stream: Stream) -> None:
        """A host program has closed both directions; what it wrote before is still to be read."""
        connection = self._streams.get(stream)
        if connection is None:
            return
        if not connection.is_open:
            self._reset(connection)
            return
        connection.lose_host()
        if connection.guest_shut & NO_RECEIVE:
            connection.end_host()
        if self._lives(connection):
            # Its guest program may never read what was written before.
            self._deadlines.setdefault(connection, self._clock() + LINGER)
        self._queue(connection)
        self._after(connection)

    def _step_port(self) -> None:
        self._next_port = FIRST_PORT | (self._next_port + 1) % FIRST_PORT

    def _keep(self, connection: Connection) -> None:
        self._connections[connection.key] = connection
        self._streams[connection.stream] = connection
        connection.watch()
        self._queue(connection)

    # Time.

    @property
    def waits(self) -> bool:
        """Whether `expire` has something to look at from time to time."""
        return bool(self._deadlines)

    def expire(self) -> None:
        """End what the guest did not answer in time."""
        now = self._clock()
        for connection in [one for one, deadline in self._deadlines.items() if deadline <= now]:
            if connection.ended and not connection.asked:
                connection.asked = True  # it may be reading slowly, and not have told
                connection.say(CREDIT_REQUEST)
                self._deadlines[connection] = now + ANSWER_PATIENCE
                self._queue(connection)
            else:
                self._reset(connection)

    # What is done in portions.

    def work(self) -> bool:
        """Move what can be moved now; True where more can, once others had their turn."""
        try:
            more = self._listen()
            was_deaf = len(self._refusals) >= MAX_REFUSALS
            more = self._talk() or more
        except GuestError as error:
            self._note(f"the guest's rings can't be used any more: {error}")
            self.start(receiving=None, sending=None)
            return False
        return more or (was_deaf and len(self._refusals) < MAX_REFUSALS)

    def _listen(self) -> bool:
        """Take packets from the guest."""
        ring = self._sending
        if ring is None:
            return False
        for _ in range(ring.size):
            if len(self._refusals) >= MAX_REFUSALS or not ring.waiting():
                return False
            chain = ring.take()
            if chain is None:
                self._note("a chain of the guest's is malformed")
                continue
            self._hear(chain.readable)
            ring.give(chain.head, 0)
        return ring.waiting() > 0

    def _talk(self) -> bool:
        """Hand packets to the guest, a packet a connection by turns."""
        ring = self._receiving
        if ring is None:
            return False
        for _ in range(ring.size):
            if not (self._refusals or self._speakers) or not ring.waiting():
                break
            chain = ring.take()
            if chain is None or sum(map(len, chain.writable)) <= HEADER_SIZE:
                self._note("a buffer of the guest's can't be used")
                if chain is not None:
                    ring.give(chain.head, 0)
                continue
            written = self._speak(chain.writable)
            if written:
                ring.give(chain.head, written)
            else:
                ring.put_back()
        for connection in self._speakers:
            connection.watch()
        return bool(self._refusals or self._speakers) and ring.waiting() > 0

    # From the guest.

    def _hear(self, pieces: Sequence[memoryview]) -> None:
        try:
            header = read_header(pieces)
        except GuestError as error:
            self._note(str(error))
            return
        is_ours = (header.source_cid, header.target_cid, header.kind) == (GUEST_CID, HOST_CID, STREAM)
        connection = self._connections.get((header.target_port, header.source_port)) if is_ours else None
        if connection is not None:
            try:
                self._apply(connection, header, pieces)
            except GuestError as error:
                self._note(f"a connection of port {header.source_port} of the guest's was reset: {error}")
                self._reset(connection)
        elif header.operation == REQUEST and is_ours and len(self) < self._limit:
            self._admit(header)
        elif header.operation != RESET:
            self._refusals.append(header.refusal())

    def _admit(self, header: Header) -> None:
        """The guest connects to a program of the host."""
        stream = self._host.connect(header.target_port)
        if stream is None:
            self._refusals.append(header.refusal())
            return
        connection = Connection(stream, header.target_port, header.source_port, by_host=False)
        connection.hear(header._replace(forwarded=0))
        self._keep(connection)

    def _apply(self, connection: Connection, header: Header, pieces: Sequence[memoryview]) -> None:
        if connection.hear(header) and connection.is_open and connection in self._deadlines:
            connection.asked = False
            self._deadlines[connection] = self._clock() + LINGER
        if connection.stalled and connection.credit > 0:
            connection.stalled = connection.asked = False
            self._queue(connection)
        operation = header.operation
        if operation == DATA and connection.is_open:
            _deliver(connection, header, pieces)
        elif operation == RESPONSE and connection.is_known and not connection.is_open:
            self._deadlines.pop(connection, None)
            connection.opened()
            self._queue(connection)
        elif operation == SHUTDOWN and connection.is_open:
            self._shut(connection, header.flags)
        elif operation == RESET:
            self._finish(connection)
        elif operation == CREDIT_REQUEST:
            connection.say(CREDIT_UPDATE)
        elif operation != CREDIT_UPDATE:
            raise GuestError(f"operation {operation} makes no sense")
        self._after(connection)

    def _shut(self, connection: Connection, directions: int) -> None:
        connection.shut(directions)
        if connection.guest_shut == BOTH:
            self._refusals.append(reset(*connection.key))
            self._finish(connection)

    # To the guest.

    def _lives(self, connection: Connection) -> bool:
        return self._connections.get(connection.key) is connection

    def _queue(self, connection: Connection) -> None:
        if not connection.queued and self._lives(connection):
            connection.queued = True
            self._speakers.append(connection)

    def _after(self, connection: Connection) -> None:
        """See to what came out of an act: something to tell, something to be told of, the end of a delivery."""
        if not self._lives(connection) and not connection.backlog:
            self._drop(connection)
            return
        if connection.has_control:
            self._queue(connection)
        connection.watch()

    def _speak(self, space: Sequence[memoryview]) -> int:
        """Write the next packet and return its size, 0 where there is none after all."""
        if self._refusals:
            write_header(space, self._refusals.popleft())
            return HEADER_SIZE
        connection = self._speakers.popleft()
        connection.queued = False
        if not self._lives(connection):
            return 0
        header = connection.control()
        if header is None:
            return self._speak_data(connection, space)
        write_header(space, header.packed())
        if connection.ended and not connection.is_closed:
            self._drop(connection)
            connection.asked = False
            self._deadlines[connection] = self._clock() + LINGER
        self._queue(connection)
        return HEADER_SIZE

    def _speak_data(self, connection: Connection, space: Sequence[memoryview]) -> int:
        size = 0
        if connection.has_data and self._has_credit(connection):
            room = skipped(space, HEADER_SIZE, connection.credit)
            size = self._read(connection, room)
            if size:
                write_header(space, connection.data(size).packed())
                # A program that is gone tells of itself no more.
                if size == sum(map(len, room)) or connection.host_deaf:
                    self._queue(connection)
                size += HEADER_SIZE
        connection.watch()
        return size

    def _has_credit(self, connection: Connection) -> bool:
        if connection.credit > 0:
            return True
        connection.stalled = True
        if not connection.asked:
            connection.asked = True
            connection.say(CREDIT_REQUEST)
            self._queue(connection)
        return False

    def _read(self, connection: Connection, room: Sequence[memoryview]) -> int:
        try:
            size = connection.stream.read_into(room)
        except OSError:
            connection.lose_host()
            size = 0
        if size == 0:
            connection.end_host()
            if connection.stream.gone():
                connection.lose_host()
            self._queue(connection)
        return size or 0

    # The end of a connection.

    def _reset(self, connection: Connection) -> None:
        """End a connection at once, and tell the guest."""
        if self._lives(connection) and connection.is_known:
            self._refusals.append(reset(*connection.key))
        connection.lose_host()
        self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        """Forget a connection on the guest's side; what is kept for the host program is delivered still."""
        if self._lives(connection):
            del self._connections[connection.key]
        self._deadlines.pop(connection, None)
        connection.host_ended = True
        connection.guest_shut |= NO_SEND
        self._after(connection)

    def _drop(self, connection: Connection) -> None:
        self._streams.pop(connection.stream, None)
        connection.close()


def _deliver(connection: Connection, header: Header, pieces: Sequence[memoryview]) -> None:
    data = skipped(pieces, HEADER_SIZE, header.length)
    if sum(map(len, data)) != header.length:
        raise GuestError("a packet is shorter than it says")
    connection.deliver(data)
