from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.virtio import RING_SIZE, WRITE, Driver, Program, packet

from reflexarc.drivers.qemu.vsock.connection import MAX_WINDOW, WINDOW
from reflexarc.drivers.qemu.vsock.device import (
    ANSWER_PATIENCE,
    CONNECT_PATIENCE,
    FIRST_PORT,
    LINGER,
    MAX_REFUSALS,
    Device,
)
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
    Header,
)

PORT = 2035
ROOM = 1024 - HEADER_SIZE


@dataclass
class Rig:
    """A device between a guest's driver and host programs; `listening` are those that the guest can connect to."""

    limit: int = 100
    driver: Driver = field(default_factory=Driver)
    listening: dict[int, Program] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    now: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.device = Device(self, lambda: self.now, self.notes.append, self.limit)
        self.plug()

    def plug(self) -> None:
        receiving, sending = self.driver.rings()
        self.device.start(receiving=receiving, sending=sending)

    def connect(self, port: int) -> Program | None:
        program = self.listening.pop(port, None)
        self.programs += [program] if program else []
        return program

    def got(self) -> list[tuple[Header, bytes]]:
        """Let the device work; what the guest gets."""
        found = []
        while True:
            for program in self.programs:
                if (
                    program.reading
                    and not program.closed
                    and not program.leaves
                    and (program.says or program.ends)
                ):
                    self.device.readable(program)
            more = self.device.work()
            arrived = self.driver.received()
            found += arrived
            if not more and not arrived:
                return found

    def told(self) -> list[int]:
        """The operations of the packets that the guest gets."""
        return [header.operation for header, _ in self.got()]

    def send(
        self, operation: int, host_port: int = FIRST_PORT, data: bytes = b"", **said: int
    ) -> list[tuple[Header, bytes]]:
        """Send a packet; what the guest gets after it."""
        assert self.driver.send(packet(operation, PORT, host_port, length=len(data), **said), data)
        return self.got()

    def opened(self, program: Program | None = None, window: int = 1 << 16) -> Program:
        """A program that is connected to the guest."""
        program = Program() if program is None else program
        assert self.device.open(program, PORT)
        self.programs.append(program)
        [(header, _)] = self.got()
        assert header.operation == REQUEST
        self.send(RESPONSE, header.source_port, window=window)
        return program

    def writes(self, program: Program, data: bytes) -> list[tuple[Header, bytes]]:
        """A program writes; what the guest gets."""
        program.says += data
        return self.got()

    def leaves(self, program: Program) -> list[tuple[Header, bytes]]:
        """A program closes; what the guest gets."""
        program.leaves = True
        self.device.hung_up(program)
        return self.got()

    def reads(self, program: Program, room: int = 1 << 30) -> list[tuple[Header, bytes]]:
        """A program reads so much; what the guest gets."""
        program.room += room
        if program.writing:
            self.device.writable(program)
        return self.got()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def joined(packets: list[tuple[Header, bytes]]) -> bytes:
    assert all(len(data) == header.length for header, data in packets)
    return b"".join(data for _, data in packets)


def test_a_program_talks_with_a_guest(rig: Rig) -> None:
    program = Program(says=bytearray(b"early"))
    rig.programs.append(program)
    assert rig.device.open(program, PORT)
    [(header, _)] = rig.got()
    assert header == Header(HOST_CID, GUEST_CID, FIRST_PORT, PORT, 0, 1, REQUEST, 0, WINDOW, 0)
    assert not program.heard
    assert joined(rig.send(RESPONSE)) == b"early"
    assert program.heard == b"OK %d\n" % FIRST_PORT
    rig.send(DATA, data=b"from the guest", forwarded=5)
    assert program.heard.endswith(b"\nfrom the guest")
    assert joined(rig.writes(program, b"x" * 5000)) == b"x" * 5000
    assert not rig.notes


def test_a_program_is_let_go_without_a_word_where_nothing_listens_in_the_guest(rig: Rig) -> None:
    program = Program()
    assert rig.device.open(program, PORT)
    rig.got()
    assert rig.send(RESET) == []
    assert (program.closed, len(program.heard), len(rig.device)) == (True, 0, 0)


def test_a_program_is_refused_while_the_guest_has_no_driver(rig: Rig) -> None:
    rig.device.start(receiving=None, sending=None)
    assert not rig.device.open(Program(), PORT)


def test_a_guest_connects_to_a_program_of_the_host(rig: Rig) -> None:
    program = rig.listening[5000] = Program(says=bytearray(b"welcome"))
    response, data = rig.send(REQUEST, 5000)
    assert (response[0].operation, response[0].source_port, response[0].target_port) == (RESPONSE, 5000, PORT)
    assert data[1] == b"welcome"
    rig.send(DATA, 5000, b"hello")
    assert program.heard == b"hello"


def test_a_guest_is_refused_where_nothing_listens(rig: Rig) -> None:
    [(header, _)] = rig.send(REQUEST, 5001)
    assert (header.operation, header.source_port, header.target_port) == (RESET, 5001, PORT)


def test_packets_for_nobody_are_refused_and_resets_are_not(rig: Rig) -> None:
    assert [header.operation for header, _ in rig.send(DATA, 77, b"x")] == [RESET]
    assert rig.send(RESET, 77) == []
    stranger = packet(REQUEST, PORT, 5000)._replace(target_cid=9)
    assert rig.driver.send(stranger)
    [(header, _)] = rig.got()
    assert (header.source_cid, header.operation) == (9, RESET)


def test_no_more_is_sent_than_the_guest_takes(rig: Rig) -> None:
    program = rig.opened(window=100)
    packets = rig.writes(program, b"y" * 250)
    assert joined(packets) == b"y" * 100
    assert [header.operation for header, _ in packets] == [DATA, CREDIT_REQUEST]
    assert not program.reading
    assert rig.send(CREDIT_UPDATE, window=100) == []
    packets = rig.send(CREDIT_UPDATE, window=100, forwarded=100)
    assert joined(packets) == b"y" * 100
    assert joined(rig.send(CREDIT_UPDATE, window=100, forwarded=150)) == b"y" * 50
    assert not program.reading
    rig.send(CREDIT_UPDATE, window=100, forwarded=250)
    assert program.reading


def test_a_program_that_does_not_read_holds_up_its_own_guest_program_only(rig: Rig) -> None:
    slow, other = rig.opened(Program(room=100)), rig.opened()
    header = rig.send(DATA, FIRST_PORT, b"z" * 4000)
    assert header == []
    told = []
    for _ in range(63):
        told += rig.send(DATA, FIRST_PORT, b"z" * 4000)
    assert told == []  # the window is not opened again
    rig.send(DATA, FIRST_PORT + 1, b"quick")
    assert other.heard.endswith(b"quick")
    assert (slow.writing, other.writing) == (True, False)
    told = rig.reads(slow, WINDOW // 2 + 5000)
    assert [header.operation for header, _ in told] == [CREDIT_UPDATE]
    rig.reads(slow)
    assert slow.heard.count(b"z") == 64 * 4000
    assert not slow.writing
    assert not rig.notes


def test_a_guest_that_overruns_the_window_is_reset_and_others_are_not(rig: Rig) -> None:
    slow, other = rig.opened(Program(room=100)), rig.opened()
    for _ in range(WINDOW // 4096):
        assert rig.send(DATA, FIRST_PORT, b"z" * 4096) == []
    [(header, _)] = rig.send(DATA, FIRST_PORT, b"z" * 4096)
    assert (header.operation, header.source_port) == (RESET, FIRST_PORT)
    assert slow.closed
    assert "more than our window" in rig.notes[0]
    rig.send(DATA, FIRST_PORT + 1, b"still here")
    assert other.heard.endswith(b"still here")


@pytest.mark.parametrize(
    "lie",
    [
        packet(CREDIT_UPDATE, PORT, FIRST_PORT, forwarded=1),
        packet(CREDIT_UPDATE, PORT, FIRST_PORT, forwarded=(1 << 32) - MAX_WINDOW - 1),
        packet(DATA, PORT, FIRST_PORT, length=10),
        packet(DATA, PORT, FIRST_PORT, length=0xFFFFFFFF),
        packet(RESPONSE, PORT, FIRST_PORT),
        packet(REQUEST, PORT, FIRST_PORT),
        packet(0, PORT, FIRST_PORT),
        packet(0xFFFF, PORT, FIRST_PORT),
    ],
)
def test_a_connection_that_makes_no_sense_is_reset(lie: Header, rig: Rig) -> None:
    program = rig.opened()
    assert rig.driver.send(lie)
    assert rig.told() == [RESET]
    assert program.closed
    assert len(rig.device) == 0


def test_a_guest_can_not_answer_what_it_was_not_asked(rig: Rig) -> None:
    rig.driver = Driver(buffers=0)
    rig.plug()
    program = Program()
    assert rig.device.open(program, PORT)
    rig.send(RESPONSE)
    assert (program.closed, len(program.heard)) == (True, 0)


def test_a_program_ends_and_still_reads(rig: Rig) -> None:
    program = rig.opened()
    program.ends = True
    data, end = rig.writes(program, b"last")
    assert data[1] == b"last"
    assert (end[0].operation, end[0].flags) == (SHUTDOWN, NO_SEND)
    rig.send(DATA, data=b"reply", forwarded=4)
    assert program.heard.endswith(b"reply")
    assert [header.operation for header, _ in rig.send(SHUTDOWN, flags=BOTH)] == [RESET]
    assert program.closed


def test_a_guest_ends_and_still_reads(rig: Rig) -> None:
    program = rig.opened()
    rig.send(DATA, data=b"last")
    rig.send(SHUTDOWN, flags=NO_SEND)
    assert program.heard_end
    assert joined(rig.writes(program, b"reply")) == b"reply"
    assert [header.operation for header, _ in rig.send(DATA, data=b"more", forwarded=5)] == [RESET]


def test_a_guest_that_receives_no_more_is_sent_no_more(rig: Rig) -> None:
    program = rig.opened()
    rig.send(SHUTDOWN, flags=NO_RECEIVE)
    assert program.refused
    assert rig.writes(program, b"unheard") == []
    rig.send(DATA, data=b"still")
    assert program.heard.endswith(b"still")
    assert [header.flags for header, _ in rig.leaves(program)] == [BOTH]


def test_what_a_guest_sent_before_it_closed_arrives_whole(rig: Rig) -> None:
    program = rig.opened(Program(room=20))
    for _ in range(50):
        rig.send(DATA, data=b"w" * 4000)
    assert [header.operation for header, _ in rig.send(SHUTDOWN, flags=BOTH)] == [RESET]
    assert not program.closed
    assert rig.told() == []
    rig.send(RESET)
    rig.reads(program, 100_000)
    assert not program.closed
    assert len(rig.device) == 1
    rig.reads(program)
    assert program.heard.count(b"w") == 200_000
    assert (program.closed, program.heard_end, len(rig.device)) == (True, True, 0)


def test_what_a_program_wrote_before_it_closed_arrives_whole(rig: Rig) -> None:
    program = rig.opened(window=3000)
    program.says += b"v" * 10_000
    packets = rig.leaves(program)
    while len(joined(packets)) < 10_000:
        packets += rig.send(CREDIT_UPDATE, window=3000, forwarded=len(joined(packets)))
    assert joined(packets) == b"v" * 10_000
    assert [header.flags for header, _ in packets if header.operation == SHUTDOWN] == [NO_RECEIVE, BOTH]
    assert program.closed
    rig.send(RESET)
    assert len(rig.device) == 0


def test_a_guest_that_never_answers_the_end_is_asked_and_then_reset(rig: Rig) -> None:
    program = rig.opened()
    assert [header.flags for header, _ in rig.leaves(program)] == [NO_RECEIVE, BOTH]
    rig.now += LINGER - 1
    rig.device.expire()
    assert rig.told() == []
    rig.now += 1
    rig.device.expire()
    assert rig.told() == [CREDIT_REQUEST]
    rig.now += ANSWER_PATIENCE
    rig.device.expire()
    assert rig.told() == [RESET]
    assert (len(rig.device), rig.device.waits) == (0, False)


def test_a_guest_that_reads_slowly_after_the_end_is_given_time(rig: Rig) -> None:
    program = rig.opened()
    program.says += b"u" * 1000
    rig.leaves(program)
    for consumed in range(100, 1001, 100):
        rig.now += LINGER - 1
        rig.device.expire()
        rig.send(CREDIT_UPDATE, forwarded=consumed)
    assert len(rig.device) == 1
    rig.send(RESET)
    assert len(rig.device) == 0


@pytest.mark.parametrize("reads", [0, 3])
def test_what_a_guest_never_reads_is_not_kept_for_ever_once_its_program_is_gone(rig: Rig, reads: int) -> None:
    program = rig.opened(window=1000)
    program.says += b"n" * 10_000
    arrived = joined(rig.leaves(program))
    for _ in range(reads):
        rig.now += LINGER - 1
        rig.device.expire()
        arrived += joined(rig.send(CREDIT_UPDATE, window=1000, forwarded=len(arrived)))
    assert (len(arrived), len(rig.device), rig.device.waits) == (1000 * (1 + reads), 1, True)
    for _ in range(2):
        rig.now += LINGER
        rig.device.expire()
        rig.got()
    assert (program.closed, len(rig.device), rig.device.waits) == (True, 0, False)


def test_a_guest_that_never_reads_keeps_a_program_waiting_that_is_there(rig: Rig) -> None:
    program = rig.writes(rig.opened(window=1000), b"n" * 10_000)
    rig.now += 100 * LINGER
    rig.device.expire()
    assert (len(joined(program)), len(rig.device), rig.device.waits) == (1000, 1, False)


def test_a_guest_that_never_answers_a_request_is_given_up(rig: Rig) -> None:
    program = Program()
    assert rig.device.open(program, PORT)
    assert rig.told() == [REQUEST]
    rig.now += CONNECT_PATIENCE
    rig.device.expire()
    assert rig.told() == [RESET]
    assert (program.closed, len(program.heard)) == (True, 0)


def test_a_program_that_leaves_before_the_guest_answers_is_forgotten(rig: Rig) -> None:
    program = Program()
    assert rig.device.open(program, PORT)
    rig.got()
    assert [header.operation for header, _ in rig.leaves(program)] == [RESET]
    assert len(rig.device) == 0


def test_a_program_that_leaves_lets_the_guest_know_and_its_data_is_dropped(rig: Rig) -> None:
    program = rig.opened(Program(room=20))
    rig.send(DATA, data=b"t" * 4000)
    program.leaves = True
    rig.device.writable(program)
    assert [header.flags for header, _ in rig.got()] == [NO_RECEIVE, BOTH]
    assert program.closed
    for _ in range(WINDOW // 4000):
        rig.send(DATA, data=b"t" * 4000)
    rig.device.hung_up(program)
    assert (len(program.heard), rig.notes) == (20, [])


def test_there_is_a_limit_to_the_connections() -> None:
    rig = Rig(limit=3)
    programs = [rig.opened(Program(room=20)) for _ in range(3)]
    assert not rig.device.open(Program(), PORT)
    rig.listening[5000] = Program()
    assert [header.operation for header, _ in rig.send(REQUEST, 5000)] == [RESET]
    assert 5000 in rig.listening
    rig.send(DATA, data=b"s" * 100)
    rig.send(SHUTDOWN, flags=BOTH)
    assert not rig.device.open(Program(), PORT)  # one is still to be delivered
    rig.reads(programs[0])
    assert rig.device.open(Program(), PORT)


def test_a_guest_that_takes_no_answers_is_not_listened_to(rig: Rig) -> None:
    rig.driver = Driver(buffers=0)
    rig.plug()
    sent = 0
    for _ in range(1000):
        sent += rig.driver.send(packet(DATA, sent, 77))
        assert not rig.device.work()
    assert MAX_REFUSALS <= sent <= MAX_REFUSALS + RING_SIZE
    rig.driver.receiving.offer(*range(RING_SIZE))
    assert len(rig.got()) == sent


def test_a_malformed_packet_is_given_back_and_others_are_heard(rig: Rig) -> None:
    program = rig.opened()
    rig.driver.sending.describe(15, 0, 64, 0, 0)
    rig.driver.sending.offer(15)
    rig.driver.sending.describe(15, 0x4000_0000, HEADER_SIZE - 1, 0, 0)
    rig.driver.sending.offer(15)
    rig.got()
    assert rig.driver.sending.given_back()[-1] == (15, 0)
    rig.send(DATA, data=b"sound")
    assert program.heard.endswith(b"sound")


def test_buffers_that_can_not_be_used_are_given_back_and_others_are_filled(rig: Rig) -> None:
    program = rig.opened()
    receiving = rig.driver.receiving
    for index, (address, length, flags) in enumerate(
        [(0, 1024, WRITE), (0x4000_4000, HEADER_SIZE, WRITE), (0x4000_4000, 1024, 0)]
    ):
        receiving.describe(index, address, length, flags, 0)
    packets = rig.writes(program, b"r" * 20 * ROOM)
    sound = [packet for packet in packets if packet[0].operation == DATA]
    assert joined(sound) == b"r" * 20 * ROOM


def test_rings_that_can_not_be_used_end_the_connections_and_sound_ones_serve_again(rig: Rig) -> None:
    program = rig.opened()
    rig.driver.sending.offer(0, step=RING_SIZE + 1)
    assert not rig.device.work()
    assert (program.closed, rig.device.is_ready, len(rig.device)) == (True, False, 0)
    assert "can't be used any more" in rig.notes[0]
    rig.driver = Driver()
    rig.plug()
    assert rig.told() == [RESET]
    assert rig.device.open(Program(), PORT)


def test_a_driver_that_stops_ends_all_and_learns_of_it_when_it_goes_on(rig: Rig) -> None:
    slow, known, unknown = rig.opened(Program(room=20)), rig.opened(), Program()
    rig.send(DATA, data=b"q" * 500)
    assert rig.device.open(unknown, PORT)
    rig.device.start(receiving=None, sending=None)
    assert (known.closed, unknown.closed, slow.closed) == (True, True, False)
    slow.room = 1000
    rig.device.writable(slow)
    assert slow.heard.count(b"q") == 500
    assert slow.closed
    rig.driver = Driver()
    rig.plug()
    resets = rig.got()
    assert [(header.operation, header.source_port) for header, _ in resets] == [
        (RESET, FIRST_PORT),
        (RESET, FIRST_PORT + 1),
    ]


def test_many_programs_write_by_turns(rig: Rig) -> None:
    programs = [rig.opened() for _ in range(20)]
    for program in programs:
        program.says += b"p" * 10 * ROOM
    order = [header.source_port for header, data in rig.got() if data]
    assert [order.count(port) for port in sorted(set(order))] == [10] * 20
    assert all(len(set(order[at : at + 20])) == 20 for at in range(0, 200, 20))
