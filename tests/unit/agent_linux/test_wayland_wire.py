"""The Wayland wire without a socket: what is sent, any cut of what is received, any garbage."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.interfaces import INTERFACES
from reflexarc_agent.backends.linux.wayland.protocol import DISPLAY, FIRST_OF_SERVER, Event, Protocol


def message(number: int, opcode: int, body: bytes = b"") -> bytes:
    return struct.pack("=II", number, (len(body) + 8) << 16 | opcode) + body


def string(text: bytes) -> bytes:
    return struct.pack("=I", len(text) + 1) + text + bytes(4 - len(text) % 4)


def events(protocol: Protocol) -> list[Event]:
    found = []
    while (event := protocol.next()) is not None:
        found.append(event)
    return found


def test_a_request_is_what_the_specification_says() -> None:
    protocol = Protocol()
    registry = protocol.request(DISPLAY, "get_registry")
    assert (registry.made, registry.data) == (2, message(1, 1, struct.pack("=I", 2)))
    bound = protocol.request(registry.made, "bind", 7, "wl_shm", 1)
    assert bound.made == 3
    assert bound.data == message(
        2, 0, struct.pack("=I", 7) + b"\x07\0\0\0wl_shm\0\0" + struct.pack("=II", 1, 3)
    )
    pool = protocol.request(bound.made, "create_pool", 9, 4096)
    assert (pool.made, pool.descriptors) == (4, [9])
    assert pool.data == message(3, 0, struct.pack("=Ii", 4, 4096))


def test_what_cannot_be_encoded_uses_no_object_up() -> None:
    protocol = Protocol()
    registry = protocol.request(DISPLAY, "get_registry").made
    with pytest.raises(WaylandError, match="bind can't be asked"):
        protocol.request(registry, "bind", -1, "wl_shm", 1)
    with pytest.raises(WaylandError, match="too many"):
        protocol.request(registry, "bind", 1, "x" * 70_000, 1)
    assert protocol.request(registry, "bind", 1, "wl_shm", 1).made == registry + 1


SAID = b"".join(
    (
        message(2, 0, struct.pack("=I", 5) + string(b"wl_seat") + struct.pack("=I", 7)),
        message(3, 0, struct.pack("=I", 9)),
        message(1, 1, struct.pack("=I", 3)),
        message(2, 1, struct.pack("=I", 5)),
    )
)
HEARD = [
    Event(2, "global", (5, "wl_seat", 7)),
    Event(3, "done", (9,)),
    Event(1, "delete_id", (3,)),
    Event(2, "global_remove", (5,)),
]


@given(st.lists(st.integers(0, len(SAID)), max_size=6))
def test_any_cut_tells_the_same(cuts: list[int]) -> None:
    protocol = Protocol()
    protocol.request(DISPLAY, "get_registry")
    protocol.request(DISPLAY, "sync")
    heard = []
    edges = [0, *sorted(cuts), len(SAID)]
    for begin, end in pairwise(edges):
        protocol.feed(SAID[begin:end])
        heard += events(protocol)
    assert heard == HEARD
    assert protocol.request(DISPLAY, "sync").made == 3


@given(st.binary(max_size=400), st.lists(st.integers(3, 1000), max_size=4))
def test_any_garbage_is_an_event_or_an_error(data: bytes, descriptors: list[int]) -> None:
    protocol = Protocol()
    protocol.request(DISPLAY, "get_registry")
    protocol.feed(data, descriptors)
    taken: list[int] = []
    with suppress(WaylandError):
        while (event := protocol.next()) is not None:
            taken += event.descriptors
    assert taken + protocol.leftover() == descriptors


@given(st.sampled_from(sorted(INTERFACES)), st.data())
def test_any_body_of_any_event_is_decoded_or_refused(interface: str, data: st.DataObject) -> None:
    known = INTERFACES[interface].events
    if not known:
        return
    protocol = Protocol()
    registry = protocol.request(DISPLAY, "get_registry").made
    made = protocol.request(registry, "bind", 1, interface, 1).made
    opcode = data.draw(st.integers(0, len(known) - 1))
    protocol.feed(message(made, opcode, data.draw(st.binary(max_size=64).map(lambda b: b[: len(b) & ~3]))))
    try:
        (event,) = events(protocol)
    except WaylandError:
        return
    assert len(event.arguments) == len(known[opcode].arguments)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (message(99, 0), "0x63 that doesn't exist"),
        (message(2, 9), "wl_registry event 9"),
        (struct.pack("=II", 2, 4 << 16), "a message of 4 bytes"),
        (struct.pack("=II", 2, 10 << 16), "a message of 10 bytes"),
        (message(2, 0, struct.pack("=II", 1, 0xFFFFFFFF)), "ends too early"),
        (message(2, 0, b""), "ends too early"),
    ],
)
def test_what_breaks_the_protocol_is_told(said: bytes, problem: str) -> None:
    protocol = Protocol()
    protocol.request(DISPLAY, "get_registry")
    protocol.feed(said)
    with pytest.raises(WaylandError, match=problem):
        protocol.next()


def test_objects_of_the_compositor_are_bounded_and_in_their_range() -> None:
    protocol = Protocol()
    registry = protocol.request(DISPLAY, "get_registry").made
    manager = protocol.request(registry, "bind", 1, "zwlr_foreign_toplevel_manager_v1", 3).made
    protocol.feed(message(manager, 0, struct.pack("=I", FIRST_OF_SERVER)) * 3)
    assert [event.arguments for event in events(protocol)] == [(FIRST_OF_SERVER,)] * 3
    protocol.feed(message(manager, 0, struct.pack("=I", 17)))
    with pytest.raises(WaylandError, match="out of its range"):
        protocol.next()
    for number in range(FIRST_OF_SERVER, FIRST_OF_SERVER + 20_001):
        protocol.feed(message(manager, 0, struct.pack("=I", number)))
    with pytest.raises(WaylandError, match="more than 20000 objects"):
        events(protocol)


def test_descriptors_that_no_event_takes_are_bounded() -> None:
    protocol = Protocol()
    with pytest.raises(WaylandError, match="more file descriptors"):
        protocol.feed(b"", range(3, 300))
