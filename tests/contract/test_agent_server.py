from __future__ import annotations

import json
import os
import random
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Agent, Host, running

from reflexarc_wire import VERSION
from reflexarc_wire.frames import Exit, NotStarted
from reflexarc_wire.replies import HelloReply, PingReply
from reflexarc_wire.requests import AxDump, Click, Exec, Hello, Ping, ReadFile, Subscribe

LINES = 10_000
DISCONNECTS = 1_000


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


def test_a_ping_tells_what_the_agent_is(agent: Agent) -> None:
    with agent.host() as host:
        ping, hello = host.ask(Ping()), host.ask(Hello(client="test"), "h1")
        assert isinstance(ping, PingReply)
        assert isinstance(hello, HelloReply)
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        assert (ping.version, ping.displays, ping.features, ping.boot_id) == (
            VERSION,
            (),
            ("exec", "files"),
            boot_id,
        )
        assert (hello.version, hello.os, hello.boot_id) == (VERSION, "linux", boot_id)
        assert all(readiness.ready for readiness in hello.readiness.values())


def test_what_no_backend_offers_is_unsupported(agent: Agent) -> None:
    with agent.host() as host:
        for request in (Click(1, 2), AxDump(), Subscribe()):
            assert host.refused(request).code == "unsupported"


def malformed(rng: random.Random) -> bytes:
    """A line that can't be a request."""
    valid = json.dumps({"op": "read_file", "path": "/etc/hostname", "id": rng.randrange(10**6)}).encode()
    kinds: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(rng.randrange(200)),
        lambda: valid[: rng.randrange(1, len(valid))],
        lambda: b"[" * rng.randrange(100, 100_000 if rng.random() < 0.01 else 300),
        lambda: b'{"op":"ping","id":' + b"9" * rng.randrange(70, 5000) + b"}",
        lambda: b'{"op":"' + rng.randbytes(3).hex().encode() + b'"}',
        lambda: b'{"op":"click","x":"' + rng.randbytes(4).hex().encode() + b'","y":1}',
        lambda: b'{"op":\0"ping"}',
        lambda: b'{"op":"type","text":"\\udc%02x"}' % rng.randrange(256),
    ]
    return rng.choice(kinds)().replace(b"\n", b" ").replace(b"\\n", b" ") or b"?"


def test_ten_thousand_malformed_lines_are_each_answered_and_harm_nobody(agent: Agent) -> None:
    rng = random.Random(11)
    before = agent.idle()
    with agent.host() as host, agent.host() as other:
        for _ in range(LINES // 100):
            host.stream.sendall(b"".join(malformed(rng) + b"\n" for _ in range(100)))
            for _ in range(100):
                reply = json.loads(read_line(host.stream))
                assert reply["ok"] is False
                assert reply["code"] in ("bad_request", "unsupported")
            other.ask(Ping())
    assert agent.idle() == before


def read_line(stream: socket.socket) -> bytes:
    """Read exactly one line."""
    line = b""
    while not line.endswith(b"\n"):
        peeked = stream.recv(1 << 16, socket.MSG_PEEK)
        line += stream.recv(peeked.find(b"\n") + 1 or len(peeked))
    return line


def abandoned(agent: Agent, rng: random.Random, folder: Path) -> None:
    """Begin something and be gone, sometimes with a reset."""
    upload = {
        "op": "write_file",
        "path": f"{folder}/f{rng.randrange(9)}",
        "data": "YQ==",
        "offset": 0,
        "size": 9,
    }
    openings = [
        b"",
        b'{"op":"pi',
        b'{"op":"ping"}\n' * 50,
        b"[" * 5000,
        json.dumps(upload).encode() + b"\n",
        b'{"op":"exec","command":"sleep 1000"}\n',
        b'{"op":"exec","command":"yes"}\n',
        b'{"op":"exec","argv":["sleep","1000"],"pty":{"cols":80,"rows":24}}\n{"t":"i","d":"',
        b'{"op":"exec","command":"sleep 1000 & sleep 1000"}\n{"t":"i","d":"YQ=="}\n',
    ]
    stream = agent.stream()
    if rng.random() < 0.5:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # It may be turned away while those before it are being cleared up.
    with stream, suppress(ConnectionError, TimeoutError):
        stream.sendall(rng.choice(openings))
        if rng.random() < 0.3:
            stream.settimeout(0.02)
            stream.recv(10)


def test_a_thousand_abrupt_disconnects_leave_nothing_behind(agent: Agent, tmp_path: Path) -> None:
    rng = random.Random(12)
    before = agent.idle()
    for _ in range(DISCONNECTS):
        abandoned(agent, rng, tmp_path)
    assert agent.idle() == before
    assert list(tmp_path.iterdir()) == []


def test_a_line_above_the_limit_is_answered_and_the_connection_closed(agent: Agent) -> None:
    with agent.host() as host:
        host.stream.sendall(b'{"op":"type","text":"' + b"x" * (1 << 20) + b'"}\n')
        reply = json.loads(read_line(host.stream))
        assert (reply["ok"], reply["code"]) == (False, "bad_request")
        assert host.stream.recv(1) == b""


def test_one_connection_too_many_is_told_so(agent: Agent) -> None:
    agent.idle()
    hosts = [Host(agent.stream()) for _ in range(64)]
    try:
        for host in hosts:
            host.ask(Ping())
        with agent.stream() as stream:
            assert json.loads(read_line(stream))["code"] == "busy"
            assert stream.recv(1) == b""
        hosts.pop().close()
        hosts[0].ask(Ping())
        while True:
            with agent.stream() as stream, suppress(BrokenPipeError):  # refused before it was asked anything
                stream.sendall(b'{"op":"ping"}\n')
                if json.loads(read_line(stream))["ok"]:
                    break
    finally:
        for host in hosts:
            host.close()


def test_a_host_that_does_not_read_costs_others_nothing_and_little_memory(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(1 << 20))
    with running(tmp_path / "agent.sock") as agent:
        with agent.host() as host:
            host.ask(ReadFile(str(big), size=1 << 20))
        before = agent.resident_kib()
        with agent.host() as slow, agent.host() as busy, agent.host() as other:
            request = json.dumps({"op": "read_file", "path": str(big), "size": 1 << 20}).encode() + b"\n"
            slow.stream.sendall(request * 500)
            busy.start(Exec(command="yes"))
            for _ in range(50):
                other.ask(Ping())
            assert agent.resident_kib() - before < 32 << 10


def test_features_that_are_switched_off_are_neither_told_nor_served(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a.sock", "--without", "exec", "--without", "files") as agent,
        agent.host() as host,
    ):
        ping = host.ask(Ping())
        assert isinstance(ping, PingReply)
        assert (ping.features, ping.readiness) == ((), {})
        failure = host.refused(ReadFile("/etc/hostname"))
        assert failure.code == "not_authorized"
        assert "--without files" in failure.error
        last = host.run(Exec(command="true")).last
        assert isinstance(last, NotStarted)
        assert last.code == "not_authorized"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_agent_ends_its_commands_and_takes_its_socket_along(tmp_path: Path, number: int) -> None:
    with running(tmp_path / "agent.sock") as agent, agent.host() as host, agent.host() as idle:
        idle.ask(Ping())
        host.start(Exec(command="sleep 1000 & echo $!; wait"))
        child = int(host.line())
        agent.process.send_signal(number)
        assert agent.process.wait(PATIENCE) == 0
        assert not agent.path.exists()
        assert idle.next() is None
    assert not Path(f"/proc/{child}/exe").exists()


def test_a_signal_that_another_thread_takes_stops_the_agent(tmp_path: Path) -> None:
    with running(tmp_path / "agent.sock") as agent:
        threads = [int(entry.name) for entry in Path(f"/proc/{agent.process.pid}/task").iterdir()]
        os.kill(next(thread for thread in threads if thread != agent.process.pid), signal.SIGTERM)
        assert agent.process.wait(PATIENCE) == 0


def test_an_agent_whose_descriptors_ran_out_serves_again(tmp_path: Path) -> None:
    with running(tmp_path / "agent.sock") as agent:
        before = agent.idle()
        with agent.host() as host:
            script = f"prlimit --pid {agent.process.pid} --nofile=12:4096"
            assert host.run(Exec(command=script)).last == Exit(0)
        streams = [agent.stream() for _ in range(20)]
        for stream in streams:
            stream.close()
        assert agent.idle() == before
