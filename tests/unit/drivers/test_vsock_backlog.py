"""What is kept of the guest's for a host program that doesn't read: all of it, in order, in little memory."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.virtio import Program

from reflexarc.drivers.qemu.vsock.connection import WINDOW, Connection
from reflexarc.drivers.qemu.vsock.memory import GuestError
from reflexarc.drivers.qemu.vsock.packet import NO_RECEIVE, NO_SEND, SHUTDOWN


def connected(program: Program) -> Connection:
    """A connection of the guest's to a program; the guest was told."""
    connection = Connection(program, 1, 2, by_host=False)
    connection.control()
    return connection


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_small_packets_take_no_more_memory_than_their_bytes(size: int) -> None:
    connection = connected(Program(room=0))
    piece = memoryview(bytes(size))
    tracemalloc.start()
    try:
        for _ in range(WINDOW // size):
            connection.deliver([piece])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert connection.backlog == WINDOW // size * size
    assert kept < 2 * WINDOW
    with pytest.raises(GuestError, match="more than our window"):
        connection.deliver([memoryview(bytes(WINDOW))])


@given(
    st.binary(max_size=400),
    st.lists(st.integers(0, 400), max_size=8),
    st.lists(st.integers(0, 90), max_size=8),
)
def test_whatever_the_program_reads_when_it_gets_the_same(
    sent: bytes, cuts: list[int], rooms: list[int]
) -> None:
    program = Program(room=0)
    connection = connected(program)
    ends = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    for number, (begin, end) in enumerate(pairwise(ends)):
        program.room += rooms[number] if number < len(rooms) else 0
        connection.flush()
        middle = (begin + end) // 2
        connection.deliver([memoryview(sent)[begin:middle], memoryview(sent)[middle:end]])
        assert program.heard == sent[: len(program.heard)]
        assert len(program.heard) + connection.backlog == end
    connection.shut(NO_SEND)
    for room in accumulate(rooms):
        program.room += room
        connection.flush()
    program.room += len(sent)
    connection.flush()
    assert (bytes(program.heard), connection.backlog) == (sent, 0)


def test_what_is_kept_for_a_program_that_goes_is_dropped_and_counts_as_consumed() -> None:
    program = Program(room=0)
    connection = connected(program)
    connection.deliver([memoryview(bytes(WINDOW))])
    program.leaves = True
    connection.flush()
    assert (connection.host_deaf, connection.backlog) == (True, 0)
    told = connection.control()
    assert told is not None
    assert (told.operation, told.flags, told.forwarded) == (SHUTDOWN, NO_RECEIVE, WINDOW)
    assert connection.control() is None
