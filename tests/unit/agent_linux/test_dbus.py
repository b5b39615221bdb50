from __future__ import annotations

import contextlib
import itertools
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.backends.linux.dbus import message as m
from reflexarc_agent.backends.linux.dbus.address import session_bus, socket_path
from reflexarc_agent.backends.linux.dbus.decoding import decode
from reflexarc_agent.backends.linux.dbus.encoding import Variant, encode
from reflexarc_agent.backends.linux.dbus.errors import BusConnectError, CallError, DBusError, FormatError
from reflexarc_agent.backends.linux.dbus.protocol import LINE_BYTES, Protocol
from reflexarc_agent.backends.linux.dbus.signature import complete_types

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "y": st.integers(0, 255),
    "b": st.booleans(),
    "n": st.integers(-(1 << 15), (1 << 15) - 1),
    "q": st.integers(0, (1 << 16) - 1),
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "u": st.integers(0, (1 << 32) - 1),
    "x": st.integers(-(1 << 63), (1 << 63) - 1),
    "t": st.integers(0, (1 << 64) - 1),
    "d": st.floats(allow_nan=False),
    "s": TEXT,
    "o": st.just("/a/b"),
    "g": st.sampled_from(["", "s", "a{sv}", "(ii)"]),
}
KINDS = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        inner.map(lambda kind: "a" + kind),
        st.lists(inner, min_size=1, max_size=3).map(lambda kinds: f"({''.join(kinds)})"),
        st.tuples(st.sampled_from("sui"), inner).map(lambda pair: f"a{{{pair[0]}{pair[1]}}}"),
    ),
    max_leaves=6,
)


def values(kind: str) -> st.SearchStrategy[Any]:
    if kind in LEAVES:
        return LEAVES[kind]
    if kind.startswith("a{"):
        return st.dictionaries(LEAVES[kind[2]], values(kind[3:-1]), max_size=3)
    if kind == "ay":
        return st.binary(max_size=9)
    if kind[0] == "a":
        listed = st.lists(values(kind[1:]), max_size=4)
        return listed.map(tuple) if kind[1] in "nqiuxtd" else listed
    return st.tuples(*(values(member) for member in complete_types(kind[1:-1])))


BODIES = KINDS.flatmap(lambda kind: st.tuples(st.just(kind), values(kind)))


@given(BODIES, st.integers(0, 7))
def test_what_is_encoded_is_decoded_to_the_same_at_any_alignment(body: tuple[str, Any], before: int) -> None:
    kind, value = body
    signature, given_values = "y" * before + kind + "v", [*range(before), value, Variant(kind, value)]
    assert decode(signature, encode(signature, given_values)) == (*range(before), value, value)


@given(BODIES, st.data())
def test_a_body_that_is_cut_is_a_format_error(body: tuple[str, Any], data: st.DataObject) -> None:
    kind, value = body
    whole = encode(kind, [value])
    if not whole:
        return
    with pytest.raises(FormatError):
        decode(kind, whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.text(max_size=12), st.binary(max_size=60), st.sampled_from("<>"))
def test_garbage_is_values_or_a_format_error(signature: str, body: bytes, order: str) -> None:
    with contextlib.suppress(FormatError):
        assert isinstance(decode(signature, body, order), tuple)


@pytest.mark.parametrize(
    "signature",
    ["a", "(", "()", "a{vs}", "{ss}", "a{s}", "z", "a" * 33 + "y", "(" * 33 + "y" + ")" * 33, "y" * 256],
)
def test_what_is_no_signature_is_refused(signature: str) -> None:
    with pytest.raises(FormatError):
        complete_types(signature)


def test_variants_that_hold_variants_without_end_are_refused() -> None:
    with pytest.raises(FormatError):
        decode("v", b"\1v\0" * 1000 + b"\1y\0\0")


def test_an_array_that_says_it_is_larger_than_its_message_is_refused() -> None:
    with pytest.raises(FormatError):
        decode("as", struct.pack("<I", 1 << 27) + b"\0" * 64)


def test_big_endian_bodies_are_read() -> None:
    assert decode("us", struct.pack(">II", 7, 2) + b"hi\0", ">") == (7, "hi")


@pytest.mark.parametrize(
    ("signature", "given_values"), [("i", ["x"]), ("s", [1]), ("u", [-1]), ("ii", [1]), ("s", ["\0"])]
)
def test_values_that_do_not_fit_their_signature_are_refused(signature: str, given_values: list[Any]) -> None:
    with pytest.raises(FormatError):
        encode(signature, given_values)


def conversation() -> bytes:
    """What a bus says to a client that has asked twice, with a signal between the answers."""
    reply = m.encode_message(m.REPLY, 1, {m.REPLY_SERIAL: 1}, "s", [":1.7"])
    signal = m.encode_message(
        m.SIGNAL, 2, {m.PATH: "/a", m.INTERFACE: "x.Y", m.MEMBER: "Moved", m.SENDER: ":1.2"}, "siiv",
        ["name", 1, 0, Variant("s", "new")],
    )  # fmt: skip
    error = m.encode_message(m.ERROR, 3, {m.REPLY_SERIAL: 2, m.ERROR_NAME: "x.Gone"}, "s", ["no such thing"])
    return b"OK 1234\r\n" + reply + signal + error


@given(st.lists(st.integers(0, len(conversation())), max_size=12))
def test_any_cut_of_a_conversation_yields_the_same_messages(cuts: list[int]) -> None:
    whole, protocol, messages = conversation(), Protocol(uid=1000), []
    places = [0, *sorted(cuts), len(whole)]
    for begin, end in itertools.pairwise(places):
        messages += protocol.receive(whole[begin:end])
    assert protocol.outgoing() == b"\0AUTH EXTERNAL 31303030\r\nBEGIN\r\n"
    assert [message.kind for message in messages] == [m.REPLY, m.SIGNAL, m.ERROR]
    assert messages[0].result() == (":1.7",)
    assert messages[1].values() == ("name", 1, 0, "new")
    assert messages[1].text(m.MEMBER) == "Moved"
    failed = messages[2].result()
    assert isinstance(failed, CallError)
    assert (failed.name, str(failed)) == ("x.Gone", "x.Gone: no such thing")


@given(st.lists(st.binary(max_size=80), max_size=6), st.booleans())
def test_garbage_on_a_connection_is_an_error_of_the_bus_or_waits_for_more(
    parts: list[bytes], greeted: bool
) -> None:
    protocol = Protocol(uid=0)
    try:
        for part in ([b"OK 1\r\n"] if greeted else []) + parts:
            for message in protocol.receive(part):
                message.result()
    except DBusError:
        pass


@given(st.data())
def test_a_message_with_any_byte_changed_is_a_message_or_a_format_error(data: st.DataObject) -> None:
    whole = bytearray(conversation()[len(b"OK 1234\r\n") :])
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    protocol = Protocol(uid=0)
    try:
        for message in protocol.receive(b"OK 1234\r\n" + bytes(whole)):
            message.result()
    except FormatError:
        pass


def test_a_refused_user_is_told_so() -> None:
    with pytest.raises(BusConnectError, match="refused this user: REJECTED EXTERNAL"):
        Protocol(uid=0).receive(b"REJECTED EXTERNAL\r\n")


def test_an_endless_greeting_is_refused() -> None:
    with pytest.raises(FormatError):
        Protocol(uid=0).receive(b"x" * LINE_BYTES)


def test_a_message_that_says_it_is_larger_than_allowed_is_refused_by_its_first_bytes() -> None:
    protocol = Protocol(uid=0)
    head = struct.pack("<4BIII", ord("l"), m.REPLY, 0, 1, m.MESSAGE_BYTES, 1, 0)
    with pytest.raises(FormatError, match="a message of"):
        protocol.receive(b"OK 1\r\n" + head)


def test_a_call_is_encoded_as_the_bus_reads_it() -> None:
    data = m.encode_call(9, ":1.4", "/a", "x.Y", "Do", "ss", encode("ss", ["k", "v"]))
    assert m.length(data, 0) == len(data)
    call = m.decode_message(data)
    assert (call.kind, call.serial, call.values()) == (m.CALL, 9, ("k", "v"))
    assert [call.text(field) for field in (m.PATH, m.INTERFACE, m.MEMBER, m.DESTINATION)] == [
        "/a",
        "x.Y",
        "Do",
        ":1.4",
    ]


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:path=/run/bus,guid=12", "/run/bus"),
        ("unix:abstract=/tmp/x,guid=1", "\0/tmp/x"),
        ("unix:path=/tmp/a%20b", "/tmp/a b"),
        ("tcp:host=example.org,port=1;unix:path=/b", "/b"),
    ],
)
def test_addresses_lead_to_sockets_of_this_machine(address: str, path: str) -> None:
    assert socket_path(address) == path


@pytest.mark.parametrize(
    "address", ["tcp:host=example.org,port=1", "unixexec:path=/bin/sh", "", "unix:guid=1"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(BusConnectError):
        socket_path(address)


def test_the_session_bus_is_found_or_its_absence_explained(tmp_path: Any) -> None:
    assert session_bus({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}) == "unix:path=/x"
    with pytest.raises(BusConnectError, match="desktop session"):
        session_bus({"XDG_RUNTIME_DIR": str(tmp_path)})
    (tmp_path / "bus").touch()
    assert session_bus({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"unix:path={tmp_path}/bus"
