"""Who is let in over HTTP: those with the token, whatever others do; not too often, nor too slowly."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from reflexarc.mcp.gate import MAX_PEERS, MAX_RATE, Rate
from reflexarc.mcp.http import application, listener_of, listening
from reflexarc.mcp.server import build

TOKEN = "a-token-of-more-than-sixteen"
PATIENCE = 30.0
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream",
           "authorization": f"Bearer {TOKEN}"}  # fmt: skip
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
}})  # fmt: skip
HEAD = (
    f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)


@contextmanager
def served(
    folder: Path,
    *,
    connections: int = 50,
    idle_time: int = 60,
    body_time: float = 60.0,
    rate: float = MAX_RATE,
) -> Iterator[int]:
    """The port of a server in a thread."""
    with listening("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
        app = application(
            build(folder / "reflexarc.toml"), "127.0.0.1", port, TOKEN, rate=rate, body_time=body_time
        )
        server = listener_of(app, connections=connections, idle_time=idle_time)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


def ask(port: int, source: str = "127.0.0.1", **more: str) -> int:
    """The status that a whole request of its own connection gets."""
    connection = http.client.HTTPConnection("127.0.0.1", port, PATIENCE, source_address=(source, 0))
    with closing(connection):
        connection.request("POST", "/mcp", HELLO, {**HEADERS, **more})
        return connection.getresponse().status


def call(port: int, said: str = "") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), PATIENCE)
    made.sendall(said.replace("localhost", f"127.0.0.1:{port}").encode())
    return made


def ended(connection: socket.socket) -> bytes:
    """All that comes until the server ends the connection; fails where it doesn't."""
    found = b""
    try:
        while more := connection.recv(4096):
            found += more
    except ConnectionResetError:
        pass
    return found


def test_silent_strangers_keep_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path, connections=8) as port, ExitStack() as stack:
        silent = [stack.enter_context(call(port, said)) for said in ("", "GET", HEAD) * 10]
        assert [ask(port) for _ in range(20)] == [200] * 20
        assert ended(silent[0]) == b""


def test_who_is_let_in_keeps_the_place(tmp_path: Path) -> None:
    """Strangers make room for each other, not those whose request is under way."""
    with served(tmp_path, connections=8) as port, ExitStack() as stack:
        known = [
            stack.enter_context(call(port, f"{HEAD}Content-Length: {len(HELLO)}\r\n\r\n")) for _ in range(3)
        ]
        assert ask(port) == 200  # by now their heads have come
        for _ in range(30):
            stack.enter_context(call(port))
        assert ask(port) == 200
        for connection in known:
            connection.sendall(HELLO.encode())
            assert connection.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("said", ["", "G", "GET /mcp HTTP/1.1\r\n", HEAD])
def test_the_head_of_a_request_comes_in_time(tmp_path: Path, said: str, whole: int) -> None:
    first = f"{HEAD}Content-Length: {len(HELLO)}\r\n\r\n{HELLO}"
    with served(tmp_path, idle_time=1) as port, call(port, first * whole + said) as connection:
        assert ended(connection).count(b"HTTP/1.1 200") == whole


@pytest.mark.parametrize("whole", [0, 1])
def test_a_head_that_comes_in_drops_does_not_last_longer(tmp_path: Path, whole: int) -> None:
    first = f"{HEAD}Content-Length: {len(HELLO)}\r\n\r\n{HELLO}"
    with served(tmp_path, idle_time=1) as port, call(port, first * whole + HEAD) as connection:
        deadline = time.monotonic() + PATIENCE
        connection.settimeout(0.05)
        found, more = b"", b"x"
        while more:
            assert time.monotonic() < deadline
            try:
                connection.sendall(b"X-More: 1\r\n")
                more = connection.recv(4096)
                found += more
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert found.count(b"HTTP/1.1 200") == whole


def test_a_slow_body_is_not_waited_for(tmp_path: Path) -> None:
    with (
        served(tmp_path, body_time=0.3) as port,
        call(port, f"{HEAD}Content-Length: 900\r\n\r\n{{") as slow,
        call(port, HEAD + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n") as chunked,
    ):
        assert ask(port) == 200
        for connection in (slow, chunked):
            assert ended(connection).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", f"Bearer {TOKEN}x", f"bearer {TOKEN}", f"Basic {TOKEN}", TOKEN, "Bearer \xff"],
)
def test_strangers_are_refused_and_let_go(tmp_path: Path, authorization: str) -> None:
    with served(tmp_path) as port:
        assert ask(port, authorization=authorization) == 401
        with call(
            port, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n{"
        ) as connection:
            assert ended(connection).startswith(b"HTTP/1.1 401")


def test_the_rate_is_of_each_peer_and_strangers_have_none(tmp_path: Path) -> None:
    with served(tmp_path, rate=1e-6) as port:
        assert [ask(port, authorization="Bearer x") for _ in range(5)] == [401] * 5
        assert [ask(port) for _ in range(3)] == [200, 429, 429]
        assert [ask(port, "127.0.0.2") for _ in range(2)] == [200, 429]


def test_a_peer_that_waits_may_send_again() -> None:
    rate = Rate(1000.0)
    burst = [rate.has_room("a") for _ in range(1000)]
    assert burst == [True] * 1000
    deadline = time.monotonic() + PATIENCE
    while not rate.has_room("a"):
        assert time.monotonic() < deadline


def test_as_many_peers_as_there_are_take_no_more_memory() -> None:
    rate = Rate(1e-6)
    assert all(rate.has_room(str(number)) for number in range(3 * MAX_PEERS))
    assert not rate.has_room(str(3 * MAX_PEERS - 1))
    assert len(rate._peers) == MAX_PEERS
