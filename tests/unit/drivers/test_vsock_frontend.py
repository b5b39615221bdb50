"""What QEMU says to the device's process, told well and badly, with real descriptors."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.virtio import GUEST_BASE, MEMORY_SIZE, RING_SIZE, USER_BASE, Driver, Program

from reflexarc.drivers.qemu.vsock import message as vhost
from reflexarc.drivers.qemu.vsock.device import Device
from reflexarc.drivers.qemu.vsock.frontend import FEATURES, PROTOCOL_FEATURES, FrontEnd
from reflexarc.drivers.qemu.vsock.loop import Loop
from reflexarc.drivers.qemu.vsock.memory import GuestError
from reflexarc.drivers.qemu.vsock.packet import GUEST_CID, REQUEST

assert sys.platform == "linux"  # the device is for no other

NEEDS_REPLY = 8


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


class Qemu:
    """QEMU's end of the connection, and a guest's driver in the memory that it shares."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.notes: list[str] = []
        self.device = Device(self, lambda: 0.0, self.notes.append)
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(10)
        self.is_over = False
        self.front_end = FrontEnd(theirs, self.device, self.loop, note=self.notes.append, ended=self._ended)
        self.memory = sealed(MEMORY_SIZE)
        self.events = [os.eventfd(0) for _ in range(4)]

    def _ended(self) -> None:
        self.is_over = True

    def connect(self, port: int) -> None:
        return None

    def close(self) -> None:
        self.socket.close()
        if not self.is_over:
            self.loop.turn(0)
        for descriptor in (self.memory, *self.events):
            os.close(descriptor)

    def send(self, raw: bytes, passed: Sequence[int] = ()) -> None:
        """Send bytes and let the process take them, as far as it still listens."""
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.socket, [raw], passed)
        for _ in range(10):
            if not self.is_over:
                self.loop.turn(0)

    def say(self, request: int, payload: bytes = b"", passed: Sequence[int] = (), flags: int = 1) -> None:
        self.send(struct.pack("<III", request, flags, len(payload)) + payload, passed)

    def answer(self) -> bytes:
        """The payload of the reply."""
        head = self.socket.recv(12)
        _, flags, size = struct.unpack("<III", head)
        assert flags == 5
        return self.socket.recv(size) if size else b""

    def asked(self, request: int, payload: bytes = b"") -> bytes:
        self.say(request, payload)
        return self.answer()

    def share(self) -> Driver:
        """Tell of a memory and of two rings in it; they run after this."""
        view = memoryview(bytearray(MEMORY_SIZE))
        driver = Driver(view)
        os.pwrite(self.memory, view, 0)
        self.say(vhost.SET_FEATURES, struct.pack("<Q", FEATURES))
        self.say(vhost.SET_MEM_TABLE, table((GUEST_BASE, MEMORY_SIZE, USER_BASE, 0)), [self.memory])
        for index, ring in enumerate((driver.receiving, driver.sending)):
            where = ring.addresses
            self.say(vhost.SET_VRING_NUM, struct.pack("<II", index, RING_SIZE))
            self.say(vhost.SET_VRING_BASE, struct.pack("<II", index, 0))
            addresses = struct.pack("<IIQQQQ", index, 0, where.descriptors, where.used, where.available, 0)
            self.say(vhost.SET_VRING_ADDR, addresses)
            self.say(vhost.SET_VRING_KICK, struct.pack("<Q", index), [self.events[index]])
            self.say(vhost.SET_VRING_CALL, struct.pack("<Q", index), [self.events[2 + index]])
            self.say(vhost.SET_VRING_ENABLE, struct.pack("<II", index, 1))
        return driver


def sealed(size: int) -> int:
    descriptor = os.memfd_create("guest", os.MFD_ALLOW_SEALING)
    os.truncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def table(*places: tuple[int, int, int, int]) -> bytes:
    return struct.pack("<II", len(places), 0) + b"".join(struct.pack("<QQQQ", *place) for place in places)


@pytest.fixture
def qemu() -> Iterator[Qemu]:
    """QEMU; all descriptors that came by it must be closed in the end."""
    before = descriptors()
    qemu = Qemu()
    yield qemu
    qemu.close()
    assert qemu.is_over
    assert descriptors() == before


def test_what_the_device_can_is_told(qemu: Qemu) -> None:
    assert qemu.asked(vhost.GET_FEATURES) == struct.pack("<Q", 1 << 32 | 1 << 30 | 1 << 28)
    assert qemu.asked(vhost.GET_PROTOCOL_FEATURES) == struct.pack("<Q", PROTOCOL_FEATURES)
    assert qemu.asked(vhost.GET_QUEUE_NUM) == struct.pack("<Q", 2)
    head = struct.pack("<III", 0, 8, 0)
    assert qemu.asked(vhost.GET_CONFIG, head + bytes(8)) == head + struct.pack("<Q", GUEST_CID)


def test_a_request_that_wants_to_be_answered_is(qemu: Qemu) -> None:
    qemu.say(vhost.SET_OWNER, flags=1 | NEEDS_REPLY)
    assert qemu.answer() == bytes(8)


def test_a_guest_is_there_once_all_of_its_rings_are_told(qemu: Qemu) -> None:
    qemu.share()
    assert qemu.device.is_ready
    program = Program()
    assert qemu.device.open(program, 2035)
    qemu.device.work()
    qemu.front_end.announce()
    assert os.eventfd_read(qemu.events[2]) == 1
    used = os.pread(qemu.memory, 44, 0x4000)
    assert struct.unpack_from("<QQIIIHH", used)[-1] == REQUEST
    assert qemu.asked(vhost.GET_VRING_BASE, struct.pack("<II", 0, 0)) == struct.pack("<II", 0, 1)
    assert (program.closed, len(qemu.device)) == (False, 1)
    qemu.asked(vhost.GET_VRING_BASE, struct.pack("<II", 1, 0))
    assert len(qemu.device) == 0


def test_the_memory_may_be_told_anew_while_rings_run(qemu: Qemu) -> None:
    qemu.share()
    program = Program()
    assert qemu.device.open(program, 2035)
    places = [(GUEST_BASE, 0x3000, USER_BASE, 0), (GUEST_BASE + 0x3000, 0x3D000, USER_BASE + 0x3000, 0x3000)]
    qemu.say(vhost.SET_MEM_TABLE, table(*places), [qemu.memory, qemu.memory])
    assert qemu.device.is_ready
    assert not program.closed
    assert not qemu.device.work()


def test_messages_may_come_in_pieces(qemu: Qemu) -> None:
    raw = struct.pack("<III", vhost.SET_MEM_TABLE, 1, 40) + table((GUEST_BASE, MEMORY_SIZE, USER_BASE, 0))
    qemu.send(raw[:1], [qemu.memory])
    for at in range(1, len(raw)):
        qemu.send(raw[at : at + 1])
    assert not qemu.is_over
    assert qemu.asked(vhost.GET_QUEUE_NUM) == struct.pack("<Q", 2)


BAD = [
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, MEMORY_SIZE + 4096, USER_BASE, 0)), "memory", "too small"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 4096, USER_BASE, MEMORY_SIZE)), "memory", "too small"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 0, USER_BASE, 0)), "memory", "too small"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, (1 << 64) - 1, USER_BASE, 0)), "memory", "last address"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 4096, USER_BASE, 1)), "memory", "mapped"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 4096, USER_BASE, 0)), None, "0 descriptors"),
    (vhost.SET_MEM_TABLE, struct.pack("<II", 0xFFFFFFFF, 0), None, "0 descriptors"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 4096, USER_BASE, 0)), "unsealed", "may shrink"),
    (vhost.SET_MEM_TABLE, table((GUEST_BASE, 4096, USER_BASE, 0)), "file", "closed"),
    (vhost.SET_VRING_KICK, struct.pack("<Q", 0), "memory", "no eventfd"),
    (vhost.SET_VRING_KICK, struct.pack("<Q", 0), None, "0 descriptors"),
    (vhost.SET_VRING_CALL, struct.pack("<Q", 0), "pipe", "no eventfd"),
    (vhost.SET_VRING_KICK, struct.pack("<Q", 2), "event", "no ring 2"),
    (vhost.SET_VRING_NUM, struct.pack("<II", 5, 1), None, "no ring 5"),
    (vhost.GET_VRING_BASE, struct.pack("<II", 0xFFFFFFFF, 1), None, "no ring"),
    (vhost.GET_CONFIG, struct.pack("<III", 250, 8, 0) + bytes(8), None, "beyond its end"),
    (vhost.GET_CONFIG, struct.pack("<III", 0, 9, 0) + bytes(8), None, "beyond its end"),
    (vhost.SET_FEATURES, bytes(7), None, "none of ours"),
    (99, b"", None, "none of ours"),
    (0, b"", None, "none of ours"),
]


@pytest.mark.parametrize(("request_", "payload", "passed", "why"), BAD, ids=range(len(BAD)))
def test_a_message_that_makes_no_sense_ends_the_connection(
    request_: int, payload: bytes, passed: str | None, why: str, qemu: Qemu
) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        reading, writing = os.pipe()
        unsealed = os.memfd_create("guest")
        os.truncate(unsealed, 4096)
        there = {"memory": qemu.memory, "file": file.fileno(), "pipe": writing, "event": qemu.events[0]}
        there["unsealed"] = unsealed
        qemu.say(request_, payload, [there[passed]] if passed else [])
        for descriptor in (reading, writing, unsealed):
            os.close(descriptor)
    assert qemu.is_over
    assert why in qemu.notes[0]
    assert not qemu.device.is_ready


def test_a_ring_outside_of_the_memory_ends_the_connection(qemu: Qemu) -> None:
    qemu.share()
    qemu.say(vhost.SET_VRING_ADDR, struct.pack("<IIQQQQ", 0, 0, 16, 32, 64, 0))
    assert qemu.is_over


def test_more_descriptors_than_belong_there_end_the_connection(qemu: Qemu) -> None:
    qemu.say(vhost.SET_OWNER, passed=[qemu.events[0]] * 30)
    assert qemu.is_over


def test_a_length_beyond_all_bounds_is_not_waited_for(qemu: Qemu) -> None:
    qemu.send(struct.pack("<III", vhost.GET_CONFIG, 1, 0xFFFFFFFF))
    assert qemu.is_over


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from([1, 1, 1, 9, 0, 0xFFFFFFFF]),
            st.one_of(
                st.binary(max_size=48),
                st.builds(
                    lambda a, b: struct.pack("<II", a, b),
                    st.integers(0, 3),
                    st.sampled_from([0, 1, 16, 1024]),
                ),
                st.builds(
                    lambda *fields: table(fields),
                    st.sampled_from([0, GUEST_BASE, (1 << 64) - 1]),
                    st.sampled_from([0, 4096, MEMORY_SIZE, (1 << 64) - 4096]),
                    st.sampled_from([0, USER_BASE]),
                    st.sampled_from([0, 1, 4096, 1 << 63]),
                ),
            ),
            st.lists(st.integers(0, 4), max_size=10),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_any_messages_leave_no_descriptor_behind(
    messages: list[tuple[int, int, bytes, list[int]]], begins_well: bool
) -> None:
    before = descriptors()
    qemu = Qemu()
    if begins_well:
        qemu.share()
    for request, flags, payload, passed in messages:
        qemu.say(request, payload, [[qemu.memory, *qemu.events][at] for at in passed], flags)
        qemu.device.work()
        qemu.front_end.announce()
    qemu.close()
    assert qemu.is_over
    assert descriptors() == before


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_a_message_or_refused(raw: bytes, cut: int) -> None:
    reader = vhost.Reader()
    with suppress(GuestError):
        for at in range(0, len(raw), cut):
            piece = raw[at : at + cut]
            while piece:
                assert 0 < reader.wanted <= 300
                taken, piece = piece[: reader.wanted], piece[reader.wanted :]
                message = reader.feed(taken, ())
                assert message is None or len(message.payload) <= 300
