"""Whatever a guest and host programs do: the device goes on, within its bounds, and what is sent well arrives."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from tests.virtio import GUEST_BASE, INDIRECT, NEXT, RING_SIZE, WRITE, Driver, Program, packet

from reflexarc.drivers.qemu.vsock.connection import WINDOW
from reflexarc.drivers.qemu.vsock.device import FIRST_PORT, MAX_REFUSALS, Device
from reflexarc.drivers.qemu.vsock.packet import (
    BOTH,
    CREDIT_REQUEST,
    CREDIT_UPDATE,
    DATA,
    HEADER_SIZE,
    NO_SEND,
    REQUEST,
    RESET,
    RESPONSE,
    SHUTDOWN,
    Header,
)

LIMIT = 4
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 100, 2035, FIRST_PORT, FIRST_PORT + 1, 0xFFFFFFFF])
HEADERS = st.builds(
    Header,
    st.sampled_from([3, 3, 3, 2, 1 << 63]),
    st.sampled_from([2, 2, 2, 3]),
    st.sampled_from([2035, 2036]),
    st.sampled_from([FIRST_PORT, FIRST_PORT + 1, FIRST_PORT + 2, 5000]),
    st.sampled_from([0, 0, 5, 500, 0xFFFFFFFF]),
    st.sampled_from([1, 1, 1, 2]),
    st.integers(0, 9),
    st.integers(0, 5),
    NUMBERS,
    NUMBERS,
)
DESCRIPTORS = st.tuples(
    st.sampled_from([0, GUEST_BASE, GUEST_BASE + 0x4000, 1 << 63]),
    st.sampled_from([0, 1, HEADER_SIZE, 4096, 0xFFFFFFFF]),
    st.sampled_from([0, WRITE, NEXT, INDIRECT, NEXT | WRITE, 7]),
    st.integers(0, RING_SIZE),
)
ACTS = st.one_of(
    st.tuples(st.just("packet"), HEADERS, st.binary(max_size=500)),
    st.tuples(st.just("chain"), st.booleans(), st.integers(0, RING_SIZE), DESCRIPTORS),
    st.tuples(
        st.just("program"), st.sampled_from(["open", "says", "ends", "leaves", "reads"]), st.integers(0, 9)
    ),
    st.tuples(st.just("time"), st.sampled_from([1.0, 30.0])),
    st.tuples(st.just("driver"), st.booleans()),
)


@dataclass
class Anything:
    """A device to which anything happens."""

    driver: Driver = field(default_factory=Driver)
    programs: list[Program] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.device = Device(self, lambda: self.now, lambda _: None, LIMIT)
        self.restart()

    def restart(self) -> None:
        receiving, sending = self.driver.rings()
        self.device.start(receiving=receiving, sending=sending)

    def connect(self, port: int) -> Program:
        self.programs.append(Program(room=300))
        return self.programs[-1]

    def packet(self, header: Header, data: bytes) -> None:
        self.driver.send(header, data)

    def chain(self, is_sent: bool, index: int, descriptor: tuple[int, int, int, int]) -> None:
        ring = self.driver.sending if is_sent else self.driver.receiving
        ring.describe(index % RING_SIZE, *descriptor)
        ring.offer(index)

    def program(self, act: str, which: int) -> None:
        if act == "open":
            program = Program(room=300)
            if self.device.open(program, 2035):
                self.programs.append(program)
            return
        there = [program for program in self.programs if not program.closed]
        if there:
            getattr(self, f"_{act}")(there[which % len(there)])

    def _says(self, program: Program) -> None:
        if not (program.ends or program.leaves):
            program.says += b"s" * 2000
            self._readable(program)

    def _ends(self, program: Program) -> None:
        program.ends = True
        self._readable(program)

    def _readable(self, program: Program) -> None:
        if program.reading:
            self.device.readable(program)

    def _leaves(self, program: Program) -> None:
        program.leaves = True
        self.device.hung_up(program)

    def _reads(self, program: Program) -> None:
        program.room += 1000
        if program.writing:
            self.device.writable(program)

    def time(self, seconds: float) -> None:
        self.now += seconds
        self.device.expire()

    def driver_(self, comes_back: bool) -> None:
        self.device.start(receiving=None, sending=None)
        if comes_back:
            self.driver = Driver()
            self.restart()


@given(st.lists(ACTS, max_size=60))
def test_nothing_that_happens_stops_the_device(acts: list[tuple[str, object]]) -> None:
    rig = Anything()
    for name, *arguments in acts:
        getattr(rig, "driver_" if name == "driver" else name)(*arguments)
        for _ in range(50):
            if not rig.device.work():
                break
        else:
            raise AssertionError("the device never comes to rest")
        rig.driver.received()
        assert len(rig.device) <= LIMIT
        open_ = [program for program in rig.programs if not program.closed]
        assert len(open_) <= LIMIT
    rig.device.start(receiving=None, sending=None)
    for program in [program for program in rig.programs if not program.closed]:
        rig._leaves(program)
    rig.time(1000.0)
    assert len(rig.device) == 0
    assert all(program.closed for program in rig.programs)
    rig.driver = Driver()
    rig.restart()
    assert rig.device.open(Program(), 2035)
    rig.device.work()
    told = [header.operation for header, _ in rig.driver.received()]
    assert told[-1] == REQUEST
    assert set(told[:-1]) <= {RESET}
    assert len(told) <= MAX_REFUSALS


@given(
    st.lists(st.integers(1, 3000), max_size=30),
    st.lists(st.integers(1, 6000), max_size=30),
    st.integers(1, 5000),
    st.integers(1, 5000),
)
def test_all_that_is_sent_within_the_windows_arrives_in_order(
    to_guest: list[int], to_host: list[int], window: int, pace: int
) -> None:
    """Both send at the same time, each in pieces; the guest takes up to a window, the program a pace a turn."""
    rig = Anything()
    program = Program(room=20)
    rig.programs.append(program)
    assert rig.device.open(program, 2035)
    rig.device.work()
    rig.driver.received()
    rig.driver.send(packet(RESPONSE, 2035, FIRST_PORT, window=window))
    rig.device.work()
    sent_to_guest = b"".join(bytes([at % 251]) * size for at, size in enumerate(to_guest))
    pieces = [bytes([at % 241]) * size for at, size in enumerate(to_host)]
    program.says += sent_to_guest
    program.ends = True
    got, allowed, taken, sent = bytearray(), WINDOW, 0, 0
    ended = False
    for _ in range(100_000):
        if program.reading and (program.says or program.ends):
            rig.device.readable(program)
        if pieces and sent + len(pieces[0]) - taken <= allowed:
            piece = pieces[0]
            header = packet(DATA, 2035, FIRST_PORT, length=len(piece), window=window, forwarded=len(got))
            if rig.driver.send(header, piece):
                sent += len(pieces.pop(0))
        rig.device.work()
        for header, data in rig.driver.received():
            got += data
            allowed, taken = header.window, header.forwarded
            ended = ended or (header.operation == SHUTDOWN and bool(header.flags & NO_SEND))
            assert header.operation in (DATA, SHUTDOWN, CREDIT_REQUEST, CREDIT_UPDATE)
        rig.driver.send(packet(CREDIT_UPDATE, 2035, FIRST_PORT, window=window, forwarded=len(got)))
        program.room += pace
        if program.writing:
            rig.device.writable(program)
        if ended and not pieces:
            break
    while not rig.driver.send(
        packet(SHUTDOWN, 2035, FIRST_PORT, flags=BOTH, window=window, forwarded=len(got))
    ):
        rig.device.work()
    rig.device.work()
    while not program.closed:
        program.room += pace
        rig.device.writable(program)
    assert got == sent_to_guest
    _, _, heard = program.heard.partition(b"\n")
    assert heard == b"".join(bytes([at % 241]) * size for at, size in enumerate(to_host))
