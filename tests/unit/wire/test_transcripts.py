from __future__ import annotations

import json

import pytest
from tests.unit.wire.transcripts import NAMES, connections, said

from reflexarc_wire import Answer, Asked, GuestEnd, HostEnd, Malformed, write_event, write_reply
from reflexarc_wire.frames import GUEST_FRAMES, HOST_FRAMES, EndOfInput, write_frame
from reflexarc_wire.replies import AxDumpReply, Failure
from reflexarc_wire.requests import REQUESTS, AxDump, Exec
from reflexarc_wire.values import AxEvent, DisplayChanged


@pytest.mark.parametrize("name", NAMES)
def test_both_ends_read_a_conversation_and_would_have_said_it_byte_for_byte(name: str) -> None:
    for lines in connections(name):
        host, guest = HostEnd(), GuestEnd()
        for speaker, line in lines:
            assert (guest_reads(guest, host, line) if speaker == ">" else host_reads(host, line)) == line
        assert host.end() == []


def guest_reads(guest: GuestEnd, host: HostEnd, line: bytes) -> bytes:
    guest.feed(line)
    found = guest.next()
    assert found is not None
    assert not isinstance(found, Malformed), found
    assert guest.next() is None
    return host.ask(found.request, found.id) if isinstance(found, Asked) else host.send(found)


def host_reads(host: HostEnd, line: bytes) -> bytes:
    host.feed(line)
    found = host.next()
    assert found is not None
    assert host.next() is None
    if isinstance(found, Answer):
        assert isinstance(found.reply, (found.request.reply, Failure))
        return write_reply(found.reply, found.id)
    return write_event(found) if isinstance(found, (AxEvent, DisplayChanged)) else write_frame(found)


def test_the_conversations_hold_every_message_of_their_version() -> None:
    operations = {
        name: {json.loads(line).get("op") for block in said(name, ">") for line in block} for name in NAMES
    }
    for operation, kind in REQUESTS.items():
        assert operation in operations[f"v{kind.since}"]
    frames = [
        json.loads(line).get("t") for name in NAMES for who in "<>" for b in said(name, who) for line in b
    ]
    assert {*GUEST_FRAMES, *HOST_FRAMES} <= set(frames)


def test_a_version_2_conversation_has_no_field_that_version_3_added() -> None:
    added = {"id", "code", "delivery", "argv", "env", "cwd", "user", "pty", "timeout", "window", "features"}
    for block in said("v2", "<") + said("v2", ">"):
        for line in block:
            # An exit's own `code` is version 2.
            assert not added & set(json.loads(line)) - ({"code"} if b'"t":"x"' in line else set()), line


def test_fields_and_frames_from_a_later_version_are_passed_over() -> None:
    guest = GuestEnd()
    guest.feed(
        b'{"op":"exec","command":"true","colour":"blue"}\n{"t":"later","n":[1]}\n{"t":"eof","why":1}\n'
    )
    assert [guest.next() for _ in range(3)] == [Asked(Exec(command="true")), EndOfInput(), None]
    host = HostEnd()
    host.ask(AxDump())
    host.feed(b'{"event":"later"}\n{"ok":true,"later":{},"tree":{"ref":1,"role":"AXWindow","later":2}}\n')
    answer = host.next()
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, AxDumpReply)
    assert answer.reply.tree is not None
    assert answer.reply.tree.role == "AXWindow"
