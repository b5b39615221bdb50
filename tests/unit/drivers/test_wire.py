from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jeepney import (
    DBusAddress,
    Endianness,
    Header,
    HeaderFields,
    Message,
    MessageFlag,
    MessageType,
    new_method_call,
)

from reflexarc.drivers.qemu.screendump import parse_ppm
from reflexarc.drivers.qemu.wire import Change, Inbox, Incoming, change
from reflexarc.errors import PeerProtocolError

XRGB = 0x20020888
LISTENER = DBusAddress("/org/qemu/Display1/Listener", "a.b", "org.qemu.Display1.Listener")


def call(member: str, signature: str, *body: object, serial: int = 7) -> bytes:
    return cast(bytes, new_method_call(LISTENER, member, signature, body).serialise(serial=serial))


def answer(serial: int) -> bytes:
    fields = {HeaderFields.reply_serial: serial}
    header = Header(Endianness.little, MessageType.method_return, MessageFlag(1), 1, 0, 1, fields)
    return cast(bytes, Message(header, ()).serialise())


def scanout(width: int, height: int, value: int = 0xFF112233) -> bytes:
    data = struct.pack("=I", value) * (width * height)
    return call("Scanout", "uuuuay", width, height, width * 4, XRGB, data)


def update(x: int, y: int, width: int, height: int, value: int = 0x445566) -> bytes:
    data = struct.pack("=I", value) * (width * height)
    return call("Update", "iiiiuuay", x, y, width, height, width * 4, XRGB, data)


STREAM = [scanout(5, 3), call("Disable", ""), update(1, 2, 3, 1), call("MouseSet", "iii", 1, 2, 3)]


def members(messages: list[Incoming]) -> list[object]:
    return [message.member for message in messages]


@given(st.lists(st.integers(0, sum(map(len, STREAM)))))
def test_messages_come_out_whole_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    stream, inbox = b"".join(STREAM), Inbox("guest")
    places = [0, *sorted(cuts), len(stream)]
    messages = [m for start, end in pairwise(places) for m in inbox.feed(stream[start:end])]
    assert members(messages) == ["Scanout", "Disable", "Update", "MouseSet"]
    whole, part = (change(messages[number], "guest") for number in (0, 2))
    assert whole is not None
    assert whole.whole
    assert whole.pixels is not None
    assert np.array_equal(whole.pixels, np.full((3, 5), 0x112233))
    assert part is not None
    assert (part.x, part.y, part.width, part.height, part.whole) == (1, 2, 3, 1, False)
    assert change(messages[1], "guest") is None


def read_all(stream: bytes) -> list[Change]:
    messages = Inbox("guest").feed(stream)
    return [found for message in messages if (found := change(message, "guest"))]


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_garbage_is_refused_or_waits_for_more(garbage: bytes) -> None:
    with suppress(PeerProtocolError):
        assert read_all(garbage) == []


@settings(max_examples=500)
@given(st.data())
def test_damaged_messages_do_no_harm(data: st.DataObject) -> None:
    stream = bytearray(data.draw(st.sampled_from([scanout(4, 2), update(0, 0, 4, 1)])))
    for _ in range(data.draw(st.integers(1, 8))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_all(bytes(stream))
    except PeerProtocolError:
        return
    for one in found:
        assert one.pixels is None or one.pixels.shape == (one.height, one.width)


@pytest.mark.parametrize(
    "header",
    [
        b"X\1\0\1" + struct.pack("<III", 0, 1, 0),
        b"l\1\0\2" + struct.pack("<III", 0, 1, 0),
        b"l\1\0\1" + struct.pack("<III", 0xFFFFFFF0, 1, 0),
        b"l\1\0\1" + struct.pack("<III", 0, 1, 0xFFFFFFF0),
        b"l\1\0\1" + struct.pack("<III", 0, 1, 8192),
    ],
    ids=["order", "version", "long body", "endless header", "long header"],
)
def test_what_cannot_be_a_message_is_refused_before_it_is_waited_for(header: bytes) -> None:
    with pytest.raises(PeerProtocolError, match="guest: QEMU's display sent"):
        Inbox("guest").feed(header)


def test_an_array_of_nothing_in_the_header_does_not_hang() -> None:
    value = b"\3a()\0" + struct.pack("<I", 4096) + bytes(8)
    fields = b"\1" + value
    raw = b"l\1\0\1" + struct.pack("<III", 0, 1, len(fields)) + fields
    with pytest.raises(PeerProtocolError, match="header that can't be read"):
        Inbox("guest").feed(raw + bytes(64))


@pytest.mark.parametrize(
    "body",
    [
        (0, 3, 20, XRGB, b""),
        (5, 3, 20, XRGB, bytes(59)),
        (5, 3, 16, XRGB, bytes(48)),
        (5, 3, 22, XRGB, bytes(66)),
        (60_000, 60_000, 240_000, XRGB, bytes(4)),
    ],
    ids=["no width", "short", "narrow rows", "odd rows", "huge"],
)
def test_a_picture_that_contradicts_itself_is_refused(body: tuple[object, ...]) -> None:
    with pytest.raises(PeerProtocolError, match="contradicts itself"):
        read_all(call("Scanout", "uuuuay", *body))


def test_rows_may_be_longer_than_the_picture_is_wide() -> None:
    data = np.arange(8, dtype=np.uint32).reshape(2, 4).tobytes()
    (found,) = read_all(call("Scanout", "uuuuay", 3, 2, 16, XRGB, data))
    assert found.pixels is not None
    assert found.pixels.tolist() == [[0, 1, 2], [4, 5, 6]]


def test_a_picture_in_a_form_that_is_not_read_still_says_that_the_screen_changed() -> None:
    (found,) = read_all(call("Scanout", "uuuuay", 5, 3, 10, 0x10020565, bytes(30)))
    assert found.pixels is None
    assert found.whole


def test_replies_are_told_from_calls() -> None:
    (asked,) = Inbox("guest").feed(call("GetAll", "s", "org.qemu.Display1.Listener", serial=9))
    assert asked.wants_reply
    assert not asked.replies_to(9)
    (reply,) = Inbox("guest").feed(answer(9))
    assert reply.replies_to(9)
    assert not reply.wants_reply


def test_a_ppm_becomes_pixels() -> None:
    pixels = parse_ppm(b"P6\n2 1\n255\n\x01\x02\x03\xff\xfe\xfd")
    assert pixels.tolist() == [[0x010203, 0xFFFEFD]]
    assert pixels.dtype == np.uint32


@pytest.mark.parametrize(
    "data",
    [b"", b"P5\n1 1\n255\n\0", b"P6\n2 2\n255\n\0", b"P6\n0 0\n255\n", b"P6\n99999 99999\n255\n\0"],
)
def test_a_file_that_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no PPM header|bytes for"):
        parse_ppm(data)
