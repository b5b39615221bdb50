from __future__ import annotations

import inspect
import json
import sys
from base64 import b64encode
from itertools import pairwise
from typing import Any, get_type_hints

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.wire.transcripts import said

from reflexarc_wire import Answer, Asked, GuestEnd, HostEnd, Malformed, WireError, write_refusal, write_reply
from reflexarc_wire.frames import (
    GUEST_FRAMES,
    Credit,
    EndOfInput,
    Exit,
    NotStarted,
    Signal,
    Stdin,
    Stdout,
    read_data,
    read_frame,
    write_frame,
)
from reflexarc_wire.framing import FROM_GUEST, read_line
from reflexarc_wire.replies import AxDumpReply, Done, Failure, PingReply
from reflexarc_wire.requests import (
    REQUESTS,
    AxDump,
    AxFind,
    AxFocus,
    AxWait,
    Exec,
    Hello,
    Ping,
    ReadFile,
    Request,
    Windows,
    WriteFile,
)
from reflexarc_wire.values import DisplayChanged, Terminal

HOST_LINES = [b"".join(block) for name in ("v2", "v3") for block in said(name, ">")]
GUEST_LINES = [b"".join(block) for name in ("v2", "v3") for block in said(name, "<")]


def heard(end: GuestEnd | HostEnd, pieces: list[bytes]) -> list[object]:
    """Everything an end makes of a stream that comes in these pieces, a WireError last if there is one."""
    found: list[object] = []
    for piece in pieces:
        end.feed(piece)
        try:
            while (one := end.next()) is not None:
                found.append(one)
        except WireError as error:
            return [*found, str(error)]
    return found


def host_that_asked(stream: bytes) -> HostEnd:
    """A host that waits for every answer in a guest's stream."""
    host = HostEnd()
    for line in stream.splitlines():
        values = json.loads(line)
        if "ok" in values:
            host.ask(AxFocus("e1"), values.get("id"))
    if b'"t"' in stream:
        host.ask(Exec(command="true"))
    return host


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


@given(st.sampled_from(HOST_LINES), st.lists(st.integers(0, 1 << 16)))
def test_a_guest_hears_the_same_wherever_the_stream_is_cut(stream: bytes, places: list[int]) -> None:
    whole = heard(GuestEnd(), [stream])
    assert len(whole) == stream.count(b"\n")
    assert heard(GuestEnd(), cut(stream, places)) == whole


@given(st.sampled_from(GUEST_LINES), st.lists(st.integers(0, 1 << 16)))
def test_a_host_hears_the_same_wherever_the_stream_is_cut(stream: bytes, places: list[int]) -> None:
    whole = heard(host_that_asked(stream), [stream])
    assert len(whole) == stream.count(b"\n")
    assert heard(host_that_asked(stream), cut(stream, places)) == whole


@st.composite
def spoilt(draw: st.DrawFn, streams: list[bytes]) -> bytes:
    """A real stream with some bytes overwritten, removed, doubled or replaced by garbage."""
    stream = bytearray(draw(st.sampled_from(streams)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(stream)))
        length = draw(st.integers(0, 12))
        stream[at : at + length] = draw(
            st.binary(max_size=6) | st.sampled_from([b"null", b"[", b"-1", b'"', b"{}", b"true", b"1e9"])
        )
    return bytes(stream)


@settings(max_examples=300)
@given(spoilt(HOST_LINES), st.lists(st.integers(0, 1 << 16), max_size=3))
def test_no_bytes_from_a_host_raise_anything_but_wire_errors(stream: bytes, places: list[int]) -> None:
    found = heard(GuestEnd(), cut(stream, places))
    assert len(found) <= stream.count(b"\n") + 1


@settings(max_examples=300)
@given(spoilt(GUEST_LINES), st.lists(st.integers(0, 1 << 16), max_size=3))
def test_no_bytes_from_a_guest_raise_anything_but_wire_errors(stream: bytes, places: list[int]) -> None:
    host = HostEnd()
    for request in (AxDump(), Ping(), AxFind(), ReadFile("/x"), Hello(), Windows()):
        host.ask(request)
    host.ask(Exec(command="true"))
    assert len(heard(host, cut(stream, places))) <= stream.count(b"\n") + 1


FLOATS = st.floats(-1e14, 1e14, allow_nan=False)
INTEGERS = st.integers(-(1 << 62), 1 << 62)


def values(hint: Any) -> st.SearchStrategy[Any]:
    return st.from_type(hint)


for plain, strategy in ((float, FLOATS), (int, INTEGERS)):
    st.register_type_strategy(plain, strategy)
CELLS = st.integers(1, (1 << 16) - 1)
st.register_type_strategy(Terminal, st.builds(Terminal, CELLS, CELLS))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    kind = draw(st.sampled_from(list(REQUESTS.values())))
    hints = {name: hint for name, hint in get_type_hints(kind).items() if "ClassVar" not in str(hint)}
    chosen = {name: draw(values(hint)) for name, hint in hints.items()}
    if kind is Exec:
        chosen["argv" if draw(st.booleans()) else "command"] = None
    try:
        return kind(**chosen)
    except WireError:
        assume(False)
        raise


@given(requests(), st.none() | INTEGERS | st.text(max_size=128))
def test_every_request_reads_back_as_it_was_asked(request: Request, id_: str | int | None) -> None:
    guest = GuestEnd()
    guest.feed(HostEnd().ask(request, id_))
    assert guest.next() == Asked(request, id_)


MALFORMED = {
    b'{"op":"click","x":1}': "y is missing",
    b'{"op":"click","x":true,"y":1}': "x: must be a number",
    b'{"op":"click","x":1,"y":1,"button":"side"}': "button: must be one of left, right, middle",
    b'{"op":"click","x":1,"y":1,"count":1.5}': "count: must be a whole number",
    b'{"op":"click","x":1e300,"y":1}': "x: must be a smaller number",
    b'{"op":"ping","id":{}}': "id must be",
    b'{"op":"ping","id":true}': "id must be",
    b'{"op":5}': "a request needs `op`",
    b'{"t":"eof"}': "a request needs `op`",
    b'{"op":"read_file","path":"etc/passwd"}': "path must be absolute",
    b'{"op":"read_file","path":"/a","offset":-1}': "can't be negative",
    b'{"op":"write_file","path":"/a","data":"*","offset":0,"size":1}': "data: must be base64",
    b'{"op":"write_file","path":"/a","data":"aGE=","offset":0,"size":1}': "beyond the file's size",
    b'{"op":"ax_dump","target":"behind"}': "target: must be",
    b'{"op":"screenshot","region":{"x":1}}': "region: y is missing",
}


@pytest.mark.parametrize(("line", "problem"), MALFORMED.items())
def test_a_malformed_request_is_told_apart_and_the_next_one_is_read(line: bytes, problem: str) -> None:
    guest = GuestEnd()
    guest.feed(line + b'\n{"op":"ping"}\n')
    found = guest.next()
    assert isinstance(found, Malformed)
    assert problem in str(found.error)
    assert found.error.code == "bad_request"
    assert guest.next() == Asked(Ping())


def test_an_unknown_operation_keeps_its_id_for_the_answer() -> None:
    guest = GuestEnd()
    guest.feed(b'{"op":"fly","id":"z"}\n')
    found = guest.next()
    assert isinstance(found, Malformed)
    assert (found.id, found.error.code) == ("z", "unsupported")


BAD_EXECS = [
    b'{"op":"exec"}',
    b'{"op":"exec","command":"a","argv":["b"]}',
    b'{"op":"exec","argv":[]}',
    b'{"op":"exec","argv":[""]}',
    b'{"op":"exec","argv":["a",5]}',
    b'{"op":"exec","command":"a\\u0000b"}',
    b'{"op":"exec","command":"a","env":{"A=B":"c"}}',
    b'{"op":"exec","command":"a","env":{"":"c"}}',
    b'{"op":"exec","command":"a","env":{"A":"\\u0000"}}',
    b'{"op":"exec","command":"a","timeout":0}',
    b'{"op":"exec","command":"a","window":0}',
    b'{"op":"exec","command":"a","pty":{"cols":0,"rows":1}}',
    b'{"op":"exec","command":"a","pty":{"cols":80}}',
]


@pytest.mark.parametrize("line", BAD_EXECS)
def test_after_a_bad_exec_the_connection_is_spent_all_the_same(line: bytes) -> None:
    guest = GuestEnd()
    guest.feed(line + b"\n")
    assert isinstance(guest.next(), Malformed)
    assert guest.executing
    failure = Failure("no", "bad_request")
    assert json.loads(write_refusal(failure, 4, executing=True)) == {
        "id": 4,
        "t": "err",
        "m": "no",
        "code": "bad_request",
    }
    guest.feed(b'{"op":"ping"}\n')
    with pytest.raises(WireError, match="a frame needs `t`"):
        guest.next()


@pytest.mark.parametrize(
    "line",
    [
        b'{"t":"sig","n":0}',
        b'{"t":"sig","n":65}',
        b'{"t":"w","n":-1}',
        b'{"t":"r","cols":1}',
        b'{"t":"i","d":"?"}',
        b"{}",
    ],
)
def test_what_is_no_frame_ends_a_running_command(line: bytes) -> None:
    guest = GuestEnd()
    guest.feed(b'{"op":"exec","command":"cat"}\n' + line + b"\n")
    assert isinstance(guest.next(), Asked)
    with pytest.raises(WireError):
        guest.next()


def test_replies_are_paired_by_id_in_any_order_and_without_one_in_turn() -> None:
    host = HostEnd()
    host.ask(Ping(), "a")
    host.ask(AxFocus("e1"), "b")
    host.ask(AxFocus("e2"))
    host.feed(
        write_reply(Done("delivered"), "b")
        + write_reply(Done(), "stranger")
        + b'{"ok":true,"version":9}\n'
        + write_reply(Failure("no"), None)
    )
    assert [host.next() for _ in range(4)] == [
        Answer(AxFocus("e1"), Done("delivered"), "b"),
        Answer(Ping(), PingReply(9), "a"),
        Answer(AxFocus("e2"), Failure("no")),
        None,
    ]
    assert host.end() == []


def test_a_reply_that_nothing_asked_for_is_refused() -> None:
    host = HostEnd()
    host.feed(write_reply(Done()))
    with pytest.raises(WireError, match="nothing asked"):
        host.next()


def test_events_may_come_between_a_request_and_its_reply() -> None:
    host = HostEnd()
    host.ask(Ping())
    host.feed(b'{"event":"display_changed"}\n{"ok":true,"version":2,"displays":[]}\n')
    assert [host.next(), host.next()] == [DisplayChanged(), Answer(Ping(), PingReply(2))]


def test_a_lost_connection_names_what_may_have_been_carried_out() -> None:
    host = HostEnd()
    host.ask(Ping())
    host.ask(AxFocus("e1"), 5)
    host.feed(b'{"ok":true,"version":3}\n{"id":5,"ok"')
    assert isinstance(host.next(), Answer)
    assert host.next() is None
    assert host.end() == [AxFocus("e1")]


def test_a_connection_lost_before_the_exit_is_never_taken_for_one() -> None:
    host = HostEnd()
    host.ask(Exec(command="make"))
    host.feed(write_frame(Stdout(b"x")) + b'{"t":"x","code":0}')
    assert heard(host, [b""]) == [Stdout(b"x")]
    with pytest.raises(WireError, match="before the command's exit") as caught:
        host.end()
    assert caught.value.code == "lost_before_exit"


@pytest.mark.parametrize("last", [Exit(0), NotStarted("no such shell")])
def test_a_connection_runs_one_command_and_nothing_else(last: Exit | NotStarted) -> None:
    host = HostEnd()
    with pytest.raises(WireError, match="no command runs"):
        host.send(EndOfInput())
    host.ask(Exec(argv=("true",)))
    with pytest.raises(WireError, match="open another"):
        host.ask(Ping())
    assert host.send(Stdin(b"hi")) == b'{"t":"i","d":"aGk="}\n'
    host.feed(write_frame(last))
    assert host.next() == last
    assert host.end() == []
    with pytest.raises(WireError, match="no command runs"):
        host.send(Signal(15))
    with pytest.raises(WireError, match="open another"):
        host.ask(Ping())


def test_frames_carry_their_requests_id_where_a_stream_is_shared() -> None:
    assert write_frame(Stdout(b"hi"), "r1") == b'{"id":"r1","t":"o","d":"aGk="}\n'
    assert write_frame(Credit(5), 7) == b'{"id":7,"t":"w","n":5}\n'


@given(
    st.sampled_from(
        [b'{"t":"o","d":"', b'{"t":"i","d":"', b'{"t":"x","d":"', b'{"t":"\xff","d":"', b'{"t": "o","d":"']
    ),
    st.binary(max_size=9).map(b64encode) | st.text('AB+/=-_ \n\\"u0,:', max_size=12).map(str.encode),
    st.sampled_from([b'"}', b'","d":"AAAA"}', b'"', b'"} ']),
)
def test_data_is_read_the_same_with_and_without_json(start: bytes, body: bytes, end: bytes) -> None:
    line = start + body.replace(b"\n", b" ") + end
    fast = read_data(line, GUEST_FRAMES)
    try:
        slow = read_frame(read_line(line, FROM_GUEST), GUEST_FRAMES)
    except WireError:
        slow = None
    assert fast in (slow, None)
    if start == b'{"t":"o","d":"' and end == b'"}' and isinstance(slow, Stdout) and b"\\" not in body:
        assert fast == slow


def test_a_host_refuses_to_send_a_line_that_no_agent_takes() -> None:
    with pytest.raises(WireError, match="send it in parts"):
        HostEnd().ask(WriteFile("/a", bytes(1 << 20), 0, 1 << 20))
    host = HostEnd()
    host.ask(Exec(command="cat"))
    with pytest.raises(WireError, match="send it in parts"):
        host.send(Stdin(bytes(1 << 20)))


def test_the_deepest_tree_that_is_read_needs_only_half_of_pythons_stack() -> None:
    def tree(levels: int) -> bytes:
        inner = b'{"ref":1,"role":"x","children":[' * levels + b"]}" * levels
        return b'{"ok":true,"tree":' + inner + b"}\n"

    host = HostEnd()
    host.ask(AxDump())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 500)
    try:
        host.feed(tree(79))
        answer = host.next()
        host.ask(AxDump())
        host.feed(tree(80))
        with pytest.raises(WireError, match="nested deeper than 160"):
            host.next()
    finally:
        sys.setrecursionlimit(limit)
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, AxDumpReply)
    node, levels = answer.reply.tree, 0
    while node is not None:
        node, levels = node.children[0] if node.children else None, levels + 1
    assert levels == 79


def test_a_wait_takes_what_a_search_takes() -> None:
    wait = AxWait(role="AXButton", gone=True, timeout=1.0)
    assert HostEnd().ask(wait) == b'{"op":"ax_wait","role":"AXButton","gone":true,"timeout":1.0}\n'
