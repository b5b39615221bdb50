"""The reverse topology: the agent connects to the host, and keeps one spare connection open."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Host, command, ended, environment

from reflexarc_wire.frames import Exit
from reflexarc_wire.replies import HelloReply, PingReply
from reflexarc_wire.requests import Exec, Hello, Ping

TOKEN = "0123456789abcdef0123456789abcdef"


@contextmanager
def calling(target: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command("--connect", target, "--headless", *arguments),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()
    assert code == 0


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.bind(str(tmp_path / "host.sock"))
        found.listen()
        found.settimeout(PATIENCE)
        yield found


@contextmanager
def taken(listening: socket.socket) -> Iterator[Host]:
    with closing(Host(listening.accept()[0])) as host:
        yield host


def nobody_calls(listening: socket.socket) -> bool:
    listening.setblocking(False)
    try:
        listening.accept()
    except BlockingIOError:
        return True
    finally:
        listening.settimeout(PATIENCE)
    return False


def test_a_spare_connection_is_there_for_every_conversation(listening: socket.socket) -> None:
    with calling(f"unix:{listening.getsockname()}"), taken(listening) as first:
        assert nobody_calls(listening)
        assert isinstance(first.ask(Ping()), PingReply)
        with taken(listening) as second:
            second.start(Exec(command="echo $$; exec sleep 1000"))
            child = int(second.line())
            with taken(listening) as third:
                assert isinstance(first.ask(Ping()), PingReply)
                assert nobody_calls(listening)
                second.close()
                assert ended(child)
                assert third.run(Exec(command="exit 5")).last == Exit(5)


def test_a_host_that_closes_the_spare_is_called_again(listening: socket.socket) -> None:
    with calling(f"unix:{listening.getsockname()}"):
        with taken(listening):
            pass
        with taken(listening) as host:
            assert isinstance(host.ask(Ping()), PingReply)


def test_a_host_that_comes_later_is_told_of_and_called(tmp_path: Path) -> None:
    path = tmp_path / "later.sock"
    with calling(f"unix:{path}") as process, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late:
        assert process.stderr is not None
        assert re.search(f"waiting for unix:{path}: .*No such file", process.stderr.readline())
        late.bind(str(path))
        late.listen()
        late.settimeout(PATIENCE)
        with taken(late) as host:
            assert isinstance(host.ask(Ping()), PingReply)
        while "connected to" not in (said := process.stderr.readline()):
            assert "waiting" in said


def test_over_tcp_the_host_brings_the_token_as_ever(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        with calling(f"tcp:127.0.0.1:{listening.getsockname()[1]}", "--token-file", str(token)):
            with taken(listening) as stranger:
                assert stranger.refused(Ping()).code == "not_authorized"
            with taken(listening) as host:
                assert isinstance(host.ask(Hello(token=TOKEN)), HelloReply)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("tcp:127.0.0.1:1", "needs a token"),
        ("tcp:192.0.2.1:1", "needs a token"),
        ("elsewhere", "name vsock:PORT"),
        ("vsock:", "no port of vsock"),
        ("vsock:4294967295", "no port of vsock"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(target: str, words: str) -> None:
    found = subprocess.run(
        command("--connect", target), env=environment(), capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert words in found.stderr


def test_off_loopback_the_agent_calls_nobody(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    arguments = ("--connect", "tcp:192.0.2.1:1", "--token-file", str(token))
    found = subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert "off loopback" in found.stderr
