from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Host, command, ended, environment, running

from reflexarc_wire import VERSION
from reflexarc_wire.frames import EndOfInput, Exit, Stdin
from reflexarc_wire.replies import HelloReply, PingReply
from reflexarc_wire.requests import Exec, Hello, Ping

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a token, and a certificate for localhost with its key."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "token").write_text(TOKEN + "\n", "ascii")
    (folder / "token").chmod(0o600)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


@contextmanager
def on_tcp(*arguments: str) -> Iterator[int]:
    """Run an agent on a loopback port, and yield the port."""
    process = subprocess.Popen(
        command("--tcp", "127.0.0.1:0", *arguments), env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        found = re.fullmatch(
            r"reflexarc-agent: listening on tcp:127\.0\.0\.1:(\d+)\n", process.stderr.readline()
        )
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        rest = process.stderr.read()
        code = process.wait(PATIENCE)
        process.stderr.close()
    assert (rest, code) == ("", 0)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def refusal(*arguments: str) -> str:
    """Run an agent that refuses to start, and return what it says."""
    found = subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert found.returncode != 0
    assert found.stdout == ""
    return found.stderr.strip().splitlines()[-1]


def test_a_unix_socket_is_its_owners_only(tmp_path: Path) -> None:
    with running(tmp_path / "a.sock") as agent:
        assert stat.S_IMODE(agent.path.stat().st_mode) == 0o600


def test_a_socket_left_behind_is_taken_over_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    with running(path) as agent, agent.host() as host:
        assert "another agent listens" in refusal("--unix", str(path))
        assert isinstance(host.ask(Ping()), PingReply)
    path.write_text("mine")
    assert "is there and no socket" in refusal("--unix", str(path))
    assert path.read_text() == "mine"


def test_a_socket_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    assert "No such file" in refusal("--unix", str(tmp_path / "no" / "a.sock"))
    assert "too long" in refusal("--unix", str(tmp_path / ("x" * 200)))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "[::]"])
def test_off_loopback_tcp_is_refused_without_both_token_and_tls(secrets: Path, host: str) -> None:
    tls = ["--tls-cert", str(secrets / "cert.pem"), "--tls-key", str(secrets / "key.pem")]
    token = ["--token-file", str(secrets / "token")]
    assert "needs a token" in refusal("--tcp", f"{host}:0", *tls)
    assert "off loopback and needs TLS" in refusal("--tcp", f"{host}:0", *token)
    assert "needs a token" in refusal("--tcp", f"{host}:0")


def test_tcp_is_refused_without_a_good_token_on_loopback_too(tmp_path: Path) -> None:
    assert "give --token-file" in refusal("--tcp", "127.0.0.1:0")
    token = tmp_path / "token"
    token.write_text("short")
    token.chmod(0o600)
    assert "at least 32 characters" in refusal("--tcp", "127.0.0.1:0", "--token-file", str(token))
    token.write_text(TOKEN)
    token.chmod(0o640)
    assert f"chmod 600 {token}" in refusal("--tcp", "127.0.0.1:0", "--token-file", str(token))
    assert "can't read the token" in refusal("--tcp", "127.0.0.1:0", "--token-file", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "at least one of"),
        (["--stdio", "--unix", "/tmp/x"], "--stdio serves the one host"),
        (["--unix", "/tmp/x", "--without", "everything"], "invalid choice"),
        (["--tcp", "127.0.0.1:http"], "is no HOST:PORT"),
        (["--tcp", "127.0.0.1:99999"], "is no HOST:PORT"),
        (["--tcp", "no-such-host.invalid:1"], "can't resolve"),
        (["--tcp", "127.0.0.1:0", "--tls-cert", "/no/cert"], "can't use the certificate"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: list[str], words: str) -> None:
    assert words in refusal(*arguments)


def test_over_tcp_nothing_is_served_before_a_hello_with_the_token(secrets: Path) -> None:
    wrong = [Ping(), Hello(), Hello(token="f" * 32), Hello(token="ü"), Exec(command="touch /no")]
    with on_tcp("--token-file", str(secrets / "token")) as port:
        for request in wrong:
            with connect(port) as stream:
                host = Host(stream)
                stream.sendall(host.end.ask(request) * 2)
                reply = json.loads(stream.makefile("rb").readline())
                assert reply["code"] == "not_authorized"
                assert stream.recv(1) == b""
        with connect(port) as stream:
            stream.sendall(b"garbage\n" * 2)
            assert stream.makefile("rb").read().count(b"\n") == 1
        with connect(port) as stream:
            host = Host(stream)
            assert isinstance(host.ask(Hello(token=TOKEN)), HelloReply)
            assert isinstance(host.ask(Ping()), PingReply)
            assert host.run(Exec(command="echo hi")).stdout == b"hi\n"


def test_over_tls_a_command_streams_both_ways(secrets: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(secrets / "cert.pem"))
    data = os.urandom(2_000_000)
    arguments = ("--tls-cert", str(secrets / "cert.pem"), "--tls-key", str(secrets / "key.pem"))
    with on_tcp("--token-file", str(secrets / "token"), *arguments) as port:
        with trusted.wrap_socket(connect(port), server_hostname="localhost") as stream:
            host = Host(stream)
            reply = host.ask(Hello(token=TOKEN))
            assert isinstance(reply, HelloReply)
            assert reply.version == VERSION
            host.start(Exec(command="cat"))
            received = b""
            for start in range(0, len(data), 50_000):
                host.send(Stdin(data[start : start + 50_000]))
                while len(received) < start + 50_000 - 200_000:
                    received += host.frame().d  # type: ignore[union-attr]
            host.send(EndOfInput())
            rest = host.outcome()
            assert (received + rest.stdout, rest.last) == (data, Exit(0))
            assert host.next() is None
        with connect(port) as plain:
            plain.sendall(b'{"op":"ping"}\n')
            answer = plain.recv(1000)
            assert b'"ok"' not in answer


def test_on_stdio_one_host_is_served_and_its_end_is_the_agents() -> None:
    with subprocess.Popen(
        command("--stdio"),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            b'{"op":"ping","id":1}\n{"op":"exec","command":"cat; exit 4"}\n{"t":"i","d":"aGk="}\n'
        )
        process.stdin.write(b'{"t":"eof"}\n')
        process.stdin.flush()
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.stdin.close()
        assert (lines[0]["id"], lines[0]["ok"]) == (1, True)
        assert lines[1:] == [{"t": "o", "d": "aGk="}, {"t": "x", "code": 4}]
        assert process.wait(PATIENCE) == 0


def test_on_stdio_a_host_that_is_gone_takes_its_command_along() -> None:
    with subprocess.Popen(
        command("--stdio"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"op":"exec","command":"exec sleep 1000"}\n')
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""


def test_on_stdio_a_stopped_agent_takes_its_command_along() -> None:
    with subprocess.Popen(
        command("--stdio"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"op":"exec","command":"echo $$; exec sleep 1000"}\n')
        process.stdin.flush()
        pid = int(base64.b64decode(json.loads(process.stdout.readline())["d"]))
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert ended(pid)
