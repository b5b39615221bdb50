from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.virtio import (
    GUEST_BASE,
    INDIRECT,
    MEMORY_SIZE,
    NEXT,
    RING_SIZE,
    USER_BASE,
    WRITE,
    Driver,
    DriverRing,
)

from reflexarc.drivers.qemu.vsock.memory import GuestError, Memory, Region
from reflexarc.drivers.qemu.vsock.ring import MAX_SIZE, Addresses, Chain, Ring, skipped

FREE = 0x8000


class Rig(NamedTuple):
    """A ring, seen from both sides, and the memory it lies in."""

    driver: DriverRing
    ring: Ring
    view: memoryview


@pytest.fixture
def rig() -> Rig:
    return rigged()


def rigged() -> Rig:
    view = memoryview(bytearray(MEMORY_SIZE))
    driver = DriverRing(view, 0x1000)
    ring = Ring(Memory([Region(GUEST_BASE, USER_BASE, view)]), RING_SIZE, driver.addresses, 0)
    return Rig(driver, ring, view)


def taken(rig: Rig, head: int = 0) -> Chain | None:
    rig.driver.offer(head)
    assert rig.ring.waiting() == 1
    return rig.ring.take()


def test_a_chain_is_read_written_and_given_back(rig: Rig) -> None:
    rig.view[FREE : FREE + 5] = b"hello"
    rig.driver.describe(3, GUEST_BASE + FREE, 5, NEXT, 7)
    rig.driver.describe(7, GUEST_BASE + FREE + 100, 20, WRITE, 0)
    chain = taken(rig, 3)
    assert chain is not None
    assert [bytes(piece) for piece in chain.readable] == [b"hello"]
    chain.writable[0][:3] = b"out"
    rig.ring.give(chain.head, 3)
    assert bytes(rig.view[FREE + 100 : FREE + 103]) == b"out"
    assert rig.driver.given_back() == [(3, 3)]
    assert rig.ring.waiting() == 0


def test_an_indirect_table_holds_a_chain(rig: Rig) -> None:
    table = struct.pack("<QIHHQIHH", GUEST_BASE + 64, 8, NEXT, 1, GUEST_BASE + 128, 4, WRITE, 0)
    rig.view[FREE : FREE + 32] = table
    rig.driver.describe(0, GUEST_BASE + FREE, 32, INDIRECT, 0)
    chain = taken(rig)
    assert chain is not None
    assert ([len(one) for one in chain.readable], [len(one) for one in chain.writable]) == ([8], [4])


def test_a_chain_that_was_put_back_is_the_next(rig: Rig) -> None:
    for index in (1, 2):
        rig.driver.describe(index, GUEST_BASE, 1, 0, 0)
    rig.driver.offer(1, 2)
    first = rig.ring.take()
    rig.ring.put_back()
    again, second = rig.ring.take(), rig.ring.take()
    assert [chain.head for chain in (first, again, second) if chain] == [1, 1, 2]


def test_the_indexes_wrap_around(rig: Rig) -> None:
    rig.driver.describe(0, GUEST_BASE, 1, 0, 0)
    for _ in range(0x10000 + 3):
        chain = taken(rig)
        assert chain is not None
        rig.ring.give(chain.head, 1)
        assert rig.driver.given_back() == [(0, 1)]
    assert rig.ring.upcoming == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((GUEST_BASE, 1, NEXT, 0), None),  # a loop of one
        ((GUEST_BASE, 1, NEXT, 1), (GUEST_BASE, 1, NEXT, 0)),  # a loop of two
        ((GUEST_BASE, 1, NEXT, RING_SIZE), None),  # out of the table
        ((GUEST_BASE - 1, 1, 0, 0), None),
        ((GUEST_BASE + MEMORY_SIZE, 1, 0, 0), None),
        ((GUEST_BASE + MEMORY_SIZE - 1, 2, 0, 0), None),
        (((1 << 64) - 1, 0xFFFFFFFF, 0, 0), None),
        ((USER_BASE, 1, 0, 0), None),  # QEMU's address is not the guest's
        ((GUEST_BASE, 1, NEXT | WRITE, 1), (GUEST_BASE, 1, 0, 0)),  # to be read after to be written
        ((GUEST_BASE + FREE, 15, INDIRECT, 0), None),
        ((GUEST_BASE + FREE, 0, INDIRECT, 0), None),
        ((GUEST_BASE + FREE, 16, INDIRECT | NEXT, 1), (GUEST_BASE, 1, 0, 0)),
        ((GUEST_BASE + MEMORY_SIZE - 16, 32, INDIRECT, 0), None),
    ],
)
def test_a_malformed_chain_is_given_back_unused_and_the_next_is_taken(
    first: tuple[int, int, int, int], second: tuple[int, int, int, int] | None, rig: Rig
) -> None:
    rig.driver.describe(0, *first)
    rig.driver.describe(1, *(second or (0, 0, 0, 0)))
    assert taken(rig) is None
    assert rig.driver.given_back() == [(0, 0)]
    rig.driver.describe(5, GUEST_BASE, 9, 0, 0)
    chain = taken(rig, 5)
    assert chain is not None
    assert len(chain.readable[0]) == 9


def test_a_table_in_a_table_is_malformed(rig: Rig) -> None:
    rig.view[FREE : FREE + 16] = struct.pack("<QIHH", GUEST_BASE + FREE, 16, INDIRECT, 0)
    rig.driver.describe(0, GUEST_BASE + FREE, 16, INDIRECT, 0)
    assert taken(rig) is None


def test_a_chain_is_no_longer_than_the_ring(rig: Rig) -> None:
    count = RING_SIZE + 4
    entries = [struct.pack("<QIHH", GUEST_BASE, 1, NEXT, at + 1) for at in range(count - 1)]
    rig.view[FREE : FREE + 16 * count] = b"".join([*entries, struct.pack("<QIHH", GUEST_BASE, 1, 0, 0)])
    rig.driver.describe(0, GUEST_BASE + FREE, 16 * count, INDIRECT, 0)
    assert taken(rig) is None


def test_a_head_that_is_no_descriptor_is_passed_over(rig: Rig) -> None:
    assert taken(rig, RING_SIZE) is None
    assert rig.driver.given_back() == []
    assert rig.ring.waiting() == 0


def test_a_ring_that_offers_more_than_it_holds_is_unusable(rig: Rig) -> None:
    rig.driver.offer(0, step=RING_SIZE + 1)
    with pytest.raises(GuestError, match=f"{RING_SIZE + 1} chains"):
        rig.ring.waiting()


@pytest.mark.parametrize("size", [0, 3, MAX_SIZE * 2, 0xFFFFFFFF])
def test_a_ring_has_a_size_that_can_be(size: int, rig: Rig) -> None:
    with pytest.raises(GuestError, match="descriptors"):
        Ring(Driver().memory, size, rig.driver.addresses, 0)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("moved", [1, MEMORY_SIZE, -(1 << 40)])
def test_a_ring_lies_in_the_memory_and_aligned(part: int, moved: int, rig: Rig) -> None:
    addresses = list(rig.driver.addresses)
    addresses[part] += moved
    with pytest.raises(GuestError, match=r"no memory|aligned"):
        Ring(Driver().memory, RING_SIZE, Addresses(*addresses), 0)


def test_a_view_does_not_join_regions() -> None:
    regions = [Region(at, USER_BASE + at, memoryview(bytearray(16))) for at in (0, 16)]
    assert len(Memory(regions).at_guest(16, 16)) == 16
    with pytest.raises(GuestError, match=r"0x8\+16"):
        Memory(regions).at_guest(8, 16)


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(0, 60), st.integers(0, 60))
def test_what_is_skipped_is_what_a_slice_would_skip(pieces: list[bytes], count: int, size: int) -> None:
    rest = skipped([memoryview(piece) for piece in pieces], count, size)
    assert b"".join(rest) == b"".join(pieces)[count : count + size]
    assert all(rest)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([GUEST_BASE, GUEST_BASE + 0x1000, GUEST_BASE + MEMORY_SIZE - 8, 0, 1 << 63]),
            st.sampled_from([0, 1, 8, 16, 64, 4096, 0xFFFFFFFF]),
            st.integers(0, 7),
            st.integers(0, RING_SIZE + 1),
        ),
        min_size=RING_SIZE,
        max_size=RING_SIZE,
    ),
    st.lists(st.integers(0, RING_SIZE), max_size=RING_SIZE),
    st.binary(max_size=64),
)
def test_any_ring_is_either_walked_within_bounds_or_refused(
    table: list[tuple[int, int, int, int]], heads: list[int], noise: bytes
) -> None:
    rig = rigged()
    for index, descriptor in enumerate(table):
        rig.driver.describe(index, *descriptor)
    rig.view[0x40 : 0x40 + len(noise)] = noise
    rig.driver.offer(*heads)
    back = []
    for _ in range(rig.ring.waiting()):
        chain = rig.ring.take()
        if chain is not None:
            assert len(chain.readable) + len(chain.writable) <= RING_SIZE
            assert all(len(view) <= MEMORY_SIZE for view in (*chain.readable, *chain.writable))
            rig.ring.give(chain.head, 0)
    back = [head for head, _ in rig.driver.given_back()]
    assert back == [head for head in heads if head < RING_SIZE]
