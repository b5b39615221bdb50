from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_wire import Answer, Asked, GuestEnd, HostEnd, WireError, write_reply
from reflexarc_wire.frames import Credit, Exit, Stdin, Stdout, write_frame
from reflexarc_wire.framing import FROM_HOST
from reflexarc_wire.replies import PingReply
from reflexarc_wire.requests import Exec, Ping
from reflexarc_wire.shared import Astray, Began, Left, MarkedLines, Said, SharedGuest, SharedHost


def met() -> tuple[SharedHost, SharedGuest]:
    """Both ends after a sync."""
    host, guest = SharedHost("n1"), SharedGuest()
    guest.feed(host.sync())
    began = guest.next()
    assert began == Began("n1")
    host.feed(guest.begun(Began("n1")))
    assert host.next() is None
    assert host.synced
    return host, guest


def told(guest: SharedGuest, number: int, line: bytes) -> bytes:
    return guest.prefix(number) + line[1:]


def test_two_conversations_go_side_by_side() -> None:
    host, guest = met()
    first, second = host.open(), host.open()
    asking, running = HostEnd(), HostEnd()
    guest.feed(host.say(first, asking.ask(Ping())))
    guest.feed(host.say(second, running.ask(Exec(argv=("cat",), window=9)) + running.send(Stdin(b"a\n"))))
    ends = {first: GuestEnd(), second: GuestEnd()}
    heard: list[tuple[object, object]] = []
    while (said := guest.next()) is not None:
        assert isinstance(said, Said)
        assert isinstance(said.id, int)
        ends[said.id].feed(said.line)
        heard.append((said.id, ends[said.id].next()))
    assert heard == [
        (first, Asked(Ping())),
        (second, Asked(Exec(argv=("cat",), window=9))),
        (second, Stdin(b"a\n")),
    ]
    host.feed(told(guest, second, write_frame(Stdout(b"a\n"))) + told(guest, second, write_frame(Credit(2))))
    host.feed(told(guest, first, write_reply(PingReply(3))) + told(guest, second, write_frame(Exit(0))))
    host.feed(guest.end(second))
    back: list[tuple[int, object]] = []
    while (found := host.next()) is not None:
        number, line = found
        end = asking if number == first else running
        end.feed(line)
        back.append((number, end.next()))
    assert back == [
        (second, Stdout(b"a\n")),
        (second, Credit(2)),
        (first, Answer(Ping(), PingReply(3))),
        (second, Exit(0)),
        (second, None),
    ]
    assert host.say(second, b"{}\n") == host.leave(second) == b""


def test_what_a_dead_host_left_half_said_never_reaches_the_next() -> None:
    _, guest = met()
    guest.feed(b'{"id":1,"op":"ping"}\n{"id":2,"op":"type","text":"half')
    host = SharedHost("n2")
    guest.feed(host.sync() + host.say(host.open(), HostEnd().ask(Ping())))
    assert guest.next() == Began("n2")
    assert guest.next() == Said(1, b'{"op":"ping"}\n')
    assert guest.next() is None


def test_a_host_hears_nothing_that_was_meant_for_the_one_before_it() -> None:
    host = SharedHost("mine")
    host.feed(b'{"id":1,"ok":true}\n{"id":1,"t":"o","d":"')
    host.feed(b'\xff{"ok":true,"nonce":"theirs"}\n{"id":1,"ok":true}\n')
    assert (host.next(), host.synced) == (None, False)
    number = host.open()
    host.feed(b'{"id":1,"t":"o\xff{"ok":true,"nonce":"mine"}\n{"id":1,"ok":true}\n')
    assert host.next() == (number, b'{"ok":true}\n')
    assert host.synced


def test_an_echo_is_no_agent() -> None:
    host = SharedHost("mine")
    host.feed(host.sync() + b'\xff{"ok":1,"nonce":"other"}\n')
    assert (host.next(), host.synced) == (None, False)


def test_an_agent_that_was_started_anew_is_noticed() -> None:
    host, _ = met()
    anew = SharedGuest()
    anew.feed(host.say(host.open(), HostEnd().ask(Ping())))
    astray = anew.next()
    assert isinstance(astray, Astray)
    host.feed(anew.refusal(astray))
    with pytest.raises(WireError, match="started anew"):
        host.next()


def test_left_conversations_end_and_are_not_heard_any_more() -> None:
    host, guest = met()
    number = host.open()
    guest.feed(host.leave(number))
    assert guest.next() == Left(number)
    host.feed(told(guest, number, write_reply(PingReply(3))))
    assert host.next() is None


def test_ids_of_any_sort_and_at_any_place_name_conversations() -> None:
    _, guest = met()
    guest.feed(b'{"op":"ping","id":"a"}\n{"id":"b","t":"end"}\n{"t":"eof","id":-3}\n')
    found = [guest.next() for _ in range(3)]
    assert found == [Said("a", b'{"op":"ping"}\n'), Left("b"), Said(-3, b'{"t":"eof"}\n')]
    assert json.loads(guest.prefix('a\n"') + b'"ok":true}') == {"id": 'a\n"', "ok": True}


@pytest.mark.parametrize(
    "line", [b"garbage", b'{"op":"ping"}', b'{"id":true}', b'{"id":[],"op":"ping"}', b"\xfe"]
)
def test_lines_of_no_conversation_are_astray_and_the_stream_goes_on(line: bytes) -> None:
    _, guest = met()
    guest.feed(line + b'\n{"id":1,"op":"ping"}\n')
    astray = guest.next()
    assert isinstance(astray, Astray)
    assert json.loads(guest.refusal(astray))["code"] == "bad_request"
    assert guest.next() == Said(1, b'{"op":"ping"}\n')


def test_before_a_sync_nothing_is_taken_for_a_request() -> None:
    guest = SharedGuest()
    guest.feed(b'[ 0.1] kernel noise\n{"id":1,"op":"ping"}\n{"op":"sync","nonce":"n"}\n\xff{"op":"sync"}\n')
    found = list(iter(guest.next, None))
    assert len(found) == 1
    assert isinstance(found[0], Astray)
    guest.feed(b'\xff{"op":"sync","nonce":"n"}\n')
    assert guest.next() == Began("n")
    guest.lose()
    guest.feed(b'{"id":1,"op":"ping"}\n')
    assert isinstance(guest.next(), Astray)


def test_a_line_above_the_limit_is_told_once_and_skipped() -> None:
    _, guest = met()
    for _ in range(40):
        guest.feed(b"x" * 65536)
        found = guest.next()
        assert found is None or isinstance(found, Astray)
    guest.feed(b'x\n{"id":1,"op":"ping"}\n')
    assert guest.next() == Said(1, b'{"op":"ping"}\n')
    guest.feed(b"x" * (FROM_HOST.line + 2000) + b'\n{"id":2,"op":"ping"}\n')
    assert isinstance(guest.next(), Astray)
    assert guest.next() == Said(2, b'{"op":"ping"}\n')


@given(st.lists(st.binary(max_size=60), max_size=6), st.data())
def test_after_any_garbage_cut_anyhow_a_sync_begins_a_clean_stream(
    garbage: list[bytes], data: st.DataObject
) -> None:
    host, guest = SharedHost("n9"), SharedGuest()
    number = host.open()
    stream = b"".join(garbage) + host.sync() + host.say(number, HostEnd().ask(Ping()))
    found: list[object] = []
    while stream:
        size = data.draw(st.integers(1, 80))
        guest.feed(stream[:size])
        found += iter(guest.next, None)
        stream = stream[size:]
    assert found[-2:] == [Began("n9"), Said(number, b'{"op":"ping"}\n')]
    assert all(isinstance(each, Astray) for each in found[:-2])


def test_an_endless_line_costs_no_more_than_the_limit() -> None:
    lines = MarkedLines(100)
    lines.feed(b"x" * 60)
    assert lines.next() is None
    lines.feed(b"x" * 60)
    with pytest.raises(WireError, match="more than 100 bytes"):
        lines.next()
    tracemalloc.start()
    try:
        for _ in range(100):
            lines.feed(b"x" * 65536)
            assert lines.next() is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 18
    finally:
        tracemalloc.stop()
    lines.feed(b"\xffback\n")
    assert lines.next() == (b"back", True)
