"""Peers that lie, stall, send garbage or break off: each call ends with the error that says what may have happened."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.lent import Serve, content, cut, lent, peer, ran

from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.screen import decoded
from reflexarc.drivers.agent.shell import AgentShell
from reflexarc.drivers.agent.transports import Unix
from reflexarc.errors import (
    CapabilityError,
    ConnectError,
    ConnectionLostError,
    MachineError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
)
from reflexarc.machine.accessibility import Selector
from reflexarc.machine.capabilities import Command
from reflexarc_wire.replies import Done
from reflexarc_wire.requests import LaunchApp

FEATURES = ("exec", "files", "screen", "input", "accessibility", "apps")
Answer = Callable[[Mapping[str, Any]], bytes | dict[str, Any] | None]


def speaking(answer: Answer, heard: list[Mapping[str, Any]] | None = None) -> Serve:
    """An agent of version 3 that answers so whatever is asked after its introduction; None breaks off."""
    introduction = {"ok": True, "version": 3, "boot_id": "b", "agent": "1", "os": "linux", "displays": []}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            if heard is not None and "op" in request:
                heard.append(request)
            told: bytes | dict[str, Any] | None
            if request.get("op") in ("ping", "hello"):
                told = {**introduction, "features": FEATURES, "readiness": {}}
            else:
                told = answer(request)
            if told is None:
                return
            if isinstance(told, dict):
                told = json.dumps({**told, "id": request.get("id")}).encode() + b"\n"
            writer.write(told)
            await writer.drain()

    return serve


def raw(data: bytes) -> Serve:
    """A peer that says this and no more, and never closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(data)
        await writer.drain()
        while await reader.read(1 << 16):
            pass

    return serve


def facing(tmp_path: Path, serve: Serve, act: Callable[[Any], Any]) -> Any:
    """What comes of an act through the driver where such a peer is the agent."""

    async def run() -> Any:
        async with (
            peer(tmp_path / "p.sock", serve),
            lent(tmp_path, transport="unix", path=tmp_path / "p.sock", pixels=True) as found,
        ):
            return await act(found)

    return asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"[]\n",
        b'{"ok":1}\n',
        b'{"ok":true,"version":"3"}\n',
        b'{"ok":true}\n',
        b"[" * 400 + b"]" * 400 + b"\n",
        b'{"ok":true,"version":' + b"9" * 5000 + b"}\n",
        b'{"t":"o","d":"AAAA"}\n',
        b"x" * (33 << 20),
    ],
    ids=range(10),
)
def test_what_is_no_agent_breaks_the_protocol(tmp_path: Path, data: bytes) -> None:
    async def act(found: Any) -> None:
        with pytest.raises(PeerProtocolError, match="broke the protocol"):
            await found.accessibility.apps()
        assert not await found.agent.ready("exec")

    facing(tmp_path, raw(data), act)


def test_a_peer_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with peer(tmp_path / "p.sock", raw(b'{"ok":')):
            agent = Agent(Unix(tmp_path / "p.sock"), None, "guest", patience=0.3)
            with pytest.raises(ConnectError, match=r"did not answer ping within 0\.3 s"):
                await agent.control("agent.ready")
            await agent.close()

    asyncio.run(run())


def test_a_reply_that_does_not_come_ends_the_wait_and_the_conversation(tmp_path: Path) -> None:
    async def act(found: Any) -> None:
        control = await found.agent.control("apps.launch")
        with pytest.raises(OperationTimeoutError, match=r"within 0\.2 s"):
            await control.conversation.ask(LaunchApp("x"), Done, operation="apps.launch", timeout=0.2)
        assert not control.conversation.alive
        assert (await found.agent.control("apps.launch")).mark != control.mark

    facing(tmp_path, speaking(lambda request: b""), act)


def test_an_act_whose_connection_is_lost_may_have_happened_and_is_not_repeated(tmp_path: Path) -> None:
    heard: list[Mapping[str, Any]] = []

    async def act(found: Any) -> None:
        with pytest.raises(ConnectionLostError, match="may have happened"):
            await found.apps.launch("editor")
        with pytest.raises(ConnectionLostError):
            await ran(found.shell, Command(line="true"))

    facing(tmp_path, speaking(lambda request: None, heard), act)
    assert [request["op"] for request in heard if request["op"] not in ("ping", "hello")] == [
        "launch_app",
        "exec",
    ]


@pytest.mark.parametrize(
    ("reply", "error", "code"),
    [
        ({"ok": False, "error": "gone", "code": "stale_ref"}, OperationRejectedError, "stale_ref"),
        ({"ok": False, "error": "two", "code": "ambiguous_ref"}, OperationRejectedError, "ambiguous_ref"),
        ({"ok": False, "error": "no", "code": "unsupported"}, OperationRejectedError, "unsupported"),
        ({"ok": False, "error": "no", "code": "not_authorized"}, OperationRejectedError, "not_authorized"),
        ({"ok": False, "error": "no", "code": "busy"}, OperationRejectedError, "busy"),
        (
            {"ok": False, "error": "no", "code": "os_error", "detail": "EIO"},
            OperationRejectedError,
            "os_error",
        ),
        ({"ok": False, "error": "no"}, OperationRejectedError, ""),
        ({"ok": False, "error": "slow", "code": "timeout"}, OperationTimeoutError, None),
        (
            {"ok": True, "delivery": "not_delivered", "retry_safe": True},
            OperationRejectedError,
            "not_delivered",
        ),
        ({"ok": True, "delivery": "unknown"}, ConnectionLostError, None),
        ({"ok": True, "delivery": "who knows"}, ConnectionLostError, None),
    ],
)
def test_each_refusal_is_an_error_of_ours(
    tmp_path: Path, reply: dict[str, Any], error: type[MachineError], code: str | None
) -> None:
    async def act(found: Any) -> None:
        mark = (await found.agent.control("x")).mark
        with pytest.raises(error) as raised:
            await found.accessibility.act(f"{mark}.e1", "AXPress")
        assert type(raised.value) is error
        assert getattr(raised.value, "code", None) == code

    facing(tmp_path, speaking(lambda request: reply), act)


def test_a_guests_words_are_cut_and_cleaned(tmp_path: Path) -> None:
    async def act(found: Any) -> str:
        with pytest.raises(OperationRejectedError) as raised:
            await found.apps.launch("x")
        return str(raised.value)

    failure = {"ok": False, "error": "\x1b[2J\x00" + "no\n" * 100_000, "code": "os_error\r" * 9000}
    said = facing(tmp_path, speaking(lambda request: failure), act)
    assert said.isprintable()
    assert len(said) < 500


def test_references_hold_in_one_connection_only(tmp_path: Path) -> None:
    heard: list[Mapping[str, Any]] = []
    broken = False

    def answer(request: Mapping[str, Any]) -> dict[str, Any] | None:
        if broken:
            return None
        if request["op"] == "ax_dump":
            return {"ok": True, "outline": '- button "[ref=e9]" [ref=e1]', "complete": True, "count": 1}
        if request["op"] == "ax_find":
            return {"ok": True, "nodes": [{"ref": "e1", "role": "AXButton"}, {"ref": 7, "role": "AXButton"}]}
        return {"ok": True, "delivery": "delivered"}

    async def act(found: Any) -> None:
        nonlocal broken
        text, number = (await found.accessibility.find(Selector(role="AXButton"))).elements
        outline = (await found.accessibility.dump(form="outline")).outline
        assert f"[ref={text.ref}]" in outline
        for element in (text, number):
            await found.accessibility.act(element.ref, "AXPress")
        assert [request["ref"] for request in heard if request["op"] == "ax_action"] == ["e1", 7]
        broken = True
        with pytest.raises(ConnectionLostError):
            await found.accessibility.focus(text.ref)
        broken = False
        for ref in (text.ref, number.ref, "e1", 1):
            with pytest.raises(
                OperationRejectedError, match="read the tree again; nothing was sent"
            ) as raised:
                await found.accessibility.act(ref, "AXPress")
            assert raised.value.code == "stale_ref"

    facing(tmp_path, speaking(answer, heard), act)
    assert sum(request["op"] == "ax_action" for request in heard) == 2


def test_a_file_that_is_not_what_was_promised_is_noticed(tmp_path: Path) -> None:
    data = b"abc"
    chunk = {"ok": True, "data": base64.b64encode(data).decode(), "offset": 0, "size": 3, "mode": 420}
    lies: list[tuple[dict[str, Any], type[MachineError]]] = [
        ({**chunk, "eof": True, "sha256": "0" * 64}, OperationRejectedError),
        ({**chunk, "eof": True, "offset": 5}, PeerProtocolError),
        ({**chunk, "eof": False, "data": ""}, PeerProtocolError),
        ({**chunk, "eof": True, "data": base64.b64encode(bytes(300 << 10)).decode()}, PeerProtocolError),
    ]
    for lie, error in lies:

        async def act(found: Any, error: type[MachineError] = error) -> None:
            with pytest.raises(error):
                await content(found.files, "/f")

        facing(tmp_path, speaking(lambda request, lie=lie: lie), act)  # type: ignore[misc]


@pytest.mark.parametrize(
    "reply",
    [{"offset": 3, "done": False}, {"offset": 2, "done": True}, {"offset": 3, "done": True, "sha256": "0"}],
)
def test_a_file_that_did_not_arrive_whole_is_not_called_written(
    tmp_path: Path, reply: dict[str, Any]
) -> None:
    async def act(found: Any) -> None:
        with pytest.raises(PeerProtocolError, match="as it was sent"):
            await found.files.write("/f", cut(b"abc"), mode=0o600)

    facing(tmp_path, speaking(lambda request: {"ok": True, **reply}), act)


def test_a_source_that_fails_sends_nothing_of_the_file(tmp_path: Path) -> None:
    heard: list[Mapping[str, Any]] = []

    async def act(found: Any) -> None:
        async def source() -> Any:
            yield b"half"
            raise OSError("the disk failed")

        with pytest.raises(OSError, match="the disk failed"):
            await found.files.write("/f", source(), mode=0o600)

    facing(tmp_path, speaking(lambda request: {"ok": True}, heard), act)
    assert not [request for request in heard if request["op"] == "write_file"]


def test_a_command_without_an_end_is_given_up_after_its_time(tmp_path: Path) -> None:
    async def act(found: Any) -> None:
        with pytest.raises(OperationTimeoutError, match=r"did not end within 0\.2 s"):
            await ran(AgentShell(found.agent, grace=0.1), Command(line="sleep 1000", timeout=0.2))

    facing(tmp_path, speaking(lambda request: b'{"t":"o","d":"AAAA"}\n'), act)


def test_a_conversation_that_was_broken_before_a_request_has_sent_nothing_of_it(tmp_path: Path) -> None:
    async def act(found: Any) -> None:
        with pytest.raises(ConnectError, match=r"[Nn]othing was sent"):
            await found.apps.launch("x")

    stray = b'{"ok":true,"version":3,"displays":[]}\n{"ok":true}\n{"ok":true}\n'
    facing(tmp_path, raw(stray), act)


def test_a_flood_of_events_and_strangers_replies_costs_no_memory(tmp_path: Path) -> None:
    flood = b'{"event":"ax","kind":"x"}\n{"id":"strange","ok":true}\n' * 200_000

    async def act(found: Any) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        news = 0
        async with aclosing(found.accessibility.changes()) as changes:
            async for _ in changes:
                news += 1
                if news == 3:
                    break
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024

    grown = facing(
        tmp_path,
        speaking(lambda r: b'{"id":%d,"ok":true,"events":["ax"]}\n' % r["id"] + flood),
        act,
    )
    assert grown < 64


def test_pictures_are_bounded(tmp_path: Path) -> None:
    huge = tmp_path / "huge.png"
    Image.new("1", (9000, 9000)).save(huge)
    small = tmp_path / "small.png"
    Image.new("RGB", (3, 2), (1, 2, 3)).save(small)
    assert decoded(small.read_bytes()).tolist() == [[0x010203] * 3] * 2
    Image.new("RGB", (3, 2)).save(tmp_path / "small.gif")
    for bad in (
        huge.read_bytes(),
        small.read_bytes()[:40],
        b"",
        b"GIF89a",
        (tmp_path / "small.gif").read_bytes(),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            decoded(bad)

    async def act(found: Any) -> None:
        with pytest.raises(PeerProtocolError, match="can't be shown"):
            await found.screen.screenshot()

    reply = {"ok": True, "image": "AAAA", "width": 1, "height": 1, "scale": 1.0}
    facing(tmp_path, speaking(lambda request: reply), act)


def plainly(request: Mapping[str, Any]) -> dict[str, Any] | bytes:
    """What an agent answers that knows version 2 and nothing else."""
    if request["op"] == "exec":
        said = base64.b64encode(request["command"].encode()).decode()
        return f'{{"t":"o","d":"{said}"}}\n{{"t":"x","code":3}}\n'.encode()
    known: dict[str, dict[str, Any]] = {
        "ping": {"version": 2, "displays": []},
        "ax_dump": {"tree": {"ref": 4, "role": "AXWindow", "title": "w", "children": []}},
        "ax_action": {},
    }
    if request["op"] not in known:
        return {"ok": False, "error": f"unknown op {request['op']}"}
    return {"ok": True, **known[request["op"]]}


async def serve_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        request = json.loads(line)
        if request.get("t") is None:
            told = plainly(request)
            writer.write(told if isinstance(told, bytes) else json.dumps(told).encode() + b"\n")
            await writer.drain()


def test_an_agent_of_version_2_works_as_far_as_it_goes(tmp_path: Path) -> None:
    async def act(found: Any) -> None:
        assert (await found.agent.look()).version == 2
        command = Command(argv=("echo", "a  b"), cwd="/a b", env={"X": "it's"})
        composed = b"""export X='it'"'"'s'; cd '/a b' || exit 1; echo 'a  b'"""
        assert await ran(found.shell, command) == (composed, b"", 3)
        tree = await found.accessibility.dump(12)
        assert (tree.root.role, tree.root.name, tree.complete) == ("AXWindow", "w", True)
        await found.accessibility.act(tree.root.ref, "AXPress")
        refused = [
            found.accessibility.find(Selector(name="x")),
            found.accessibility.dump(form="outline"),
            found.files.write("/f", cut(b""), mode=0o600),
            found.keyboard.send([]),
        ]
        for each in refused[:3]:
            with pytest.raises(CapabilityError, match="version 2"):
                await each
        await refused[3]

    facing(tmp_path, serve_plainly, act)
