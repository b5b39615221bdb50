"""Version 2 alone: a client and a server written from its description, without our own protocol code."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents import Agent, Host, Outcome, running

from reflexarc_wire.frames import EndOfInput, Exit, NotStarted, Signal, Stdin
from reflexarc_wire.replies import Done, Failure, PingReply, ScreenshotReply
from reflexarc_wire.requests import AxAction, Click, Exec, Ping, Screenshot
from reflexarc_wire.values import Display


class PlainClient:
    """Knows version 2 and nothing else."""

    def __init__(self, stream: socket.socket) -> None:
        self.file = stream.makefile("rwb", buffering=0)

    def request(self, **fields: Any) -> dict[str, Any]:
        self.file.write(json.dumps(fields).encode() + b"\n")
        return dict(json.loads(self.file.readline()))

    def exec(self, command: str, stdin: bytes) -> tuple[bytes, bytes, int]:
        self.file.write(json.dumps({"op": "exec", "command": command}).encode() + b"\n")
        self.file.write(json.dumps({"t": "i", "d": base64.b64encode(stdin).decode()}).encode() + b"\n")
        self.file.write(b'{"t":"eof"}\n')
        streams = {"o": b"", "e": b""}
        while (frame := json.loads(self.file.readline()))["t"] != "x":
            streams[frame["t"]] += base64.b64decode(frame["d"])
        assert self.file.readline() == b""
        return streams["o"], streams["e"], frame["code"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


def test_a_version_2_client_is_served(agent: Agent) -> None:
    with agent.stream() as stream:
        client = PlainClient(stream)
        pong = client.request(op="ping")
        assert pong["ok"] is True
        assert pong["version"] >= 2
        assert pong["displays"] == []
        refused = client.request(op="click", x=1, y=1)
        assert refused["ok"] is False
        assert isinstance(refused["error"], str)
        assert client.request(op="ping") == pong
    with agent.stream() as stream:
        command = "export A='b c'; cd '/tmp' && tr a-z A-Z; echo \"$A $PWD\" >&2; exit 12"
        assert PlainClient(stream).exec(command, b"hello") == (b"HELLO", b"b c /tmp\n", 12)
    with agent.stream() as stream:
        assert PlainClient(stream).exec("kill -15 $$", b"") == (b"", b"", 143)


def plain_server(listening: socket.socket) -> None:
    """Serve version 2: three connections, without knowing ids, codes or features."""
    for _ in range(3):
        stream, _ = listening.accept()
        with stream, stream.makefile("rwb", buffering=0) as file:
            for line in file:
                serve_plainly(json.loads(line), file)


def serve_plainly(request: dict[str, Any], file: Any) -> None:
    def say(**fields: Any) -> None:
        file.write(json.dumps(fields).encode() + b"\n")

    if request["op"] == "ping":
        display = {"id": 1, "x": 0, "y": 0, "w": 1512, "h": 982, "scale": 2.0, "primary": True}
        say(ok=True, version=2, displays=[display])
    elif request["op"] == "screenshot":
        say(ok=True, image=base64.b64encode(b"\xff\xd8\xff").decode(), width=2, height=1, scale=2)
    elif request["op"] == "click":
        say(ok=True)
    elif request["op"] == "exec" and request["command"] == "none":
        say(t="err", m="no such shell")
    elif request["op"] == "exec":
        given = json.loads(file.readline())
        assert json.loads(file.readline()) == {"t": "eof"}
        signalled = json.loads(file.readline())
        say(t="o", d=given["d"])
        say(t="e", d=base64.b64encode(request["command"].encode()).decode())
        say(t="x", code=128 + signalled["n"])
    else:
        say(ok=False, error=f"unknown op {request['op']}")


def test_a_version_2_server_is_understood(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "v2.sock"))
        listening.listen()
        thread = threading.Thread(target=plain_server, args=(listening,))
        thread.start()

        def connect() -> Host:
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stream.connect(str(tmp_path / "v2.sock"))
            return Host(stream)

        host = connect()
        # Sent with ids, which it doesn't echo.
        host.stream.sendall(
            host.end.ask(Ping(), 1) + host.end.ask(Screenshot(), 2) + host.end.ask(Click(1, 2), 3)
        )
        host.stream.sendall(host.end.ask(AxAction("e1", "AXPress"), 4))
        replies = [host.next() for _ in range(4)]
        host.close()
        assert [getattr(answer, "reply", None) for answer in replies] == [
            PingReply(2, (Display(1, 0, 0, 1512, 982, 2.0, True),)),
            ScreenshotReply(b"\xff\xd8\xff", 2, 1, 2),
            Done(),
            Failure("unknown op ax_action"),
        ]
        assert [getattr(answer, "id", None) for answer in replies] == [1, 2, 3, 4]
        host = connect()
        host.start(Exec(command="cat"), Stdin(b"in"), EndOfInput(), Signal(2))
        assert host.outcome() == Outcome(b"in", b"cat", Exit(130))
        host.close()
        host = connect()
        host.start(Exec(command="none"))
        assert host.outcome().last == NotStarted("no such shell")
        host.close()
        thread.join()
