"""The agent on a serial line, here a pseudo-terminal."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agents import PATIENCE, Outcome, Usage, command, ended, environment, read
from tests.serial import Line

from reflexarc_wire import WireError
from reflexarc_wire.frames import Credit, EndOfInput, Exit, NotStarted, Stdin, Stdout
from reflexarc_wire.replies import Failure, PingReply, ReadFileReply
from reflexarc_wire.requests import Exec, Ping, ReadFile, WriteFile

WINDOW = 1 << 16


@contextmanager
def serving(path: str) -> Iterator[subprocess.Popen[str]]:
    """Run an agent on the device."""
    process = subprocess.Popen(
        command("--virtio-serial", path, "--headless"), env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == f"reflexarc-agent: serving serial:{path}\n"
        yield process
    finally:
        process.terminate()
        rest = process.stderr.read()
        code = process.wait(PATIENCE)
        process.stderr.close()
    assert (rest, code) == ("", 0)


@contextmanager
def terminal() -> Iterator[tuple[int, str]]:
    ours, theirs = os.openpty()
    try:
        yield ours, os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def line() -> Iterator[Line]:
    with terminal() as (fd, path), serving(path):
        line = Line(fd, "nonce")
        line.sync()
        yield line


def usage(process: subprocess.Popen[str]) -> Usage:
    folder = Path(f"/proc/{process.pid}")
    tasks = list((folder / "task").iterdir())
    children = sum(len(read(task / "children").split()) for task in tasks)
    return Usage(len(tasks), len(list((folder / "fd").iterdir())), children)


def test_requests_commands_and_files_share_a_line(line: Line, tmp_path: Path) -> None:
    asking, files, running = line.host(), line.host(), line.host()
    running.start(Exec(command="cat; exit 6", window=WINDOW), Stdin(b"one\n"))
    assert isinstance(asking.ask(Ping()), PingReply)
    path = str(tmp_path / "f")
    files.ask(WriteFile(path, b"half", 0, 9))
    assert running.line() == b"one"
    files.ask(WriteFile(path, b"whole", 4, 9))
    reply = asking.ask(ReadFile(path))
    assert isinstance(reply, ReadFileReply)
    assert reply.data == b"halfwhole"
    running.send(EndOfInput())
    assert running.outcome().last == Exit(6)
    assert running.next() is None


def test_nothing_waits_for_a_slow_request_or_a_silent_command(line: Line) -> None:
    slow, other = line.host(), line.host()
    slow.start(Exec(command="read x; echo $x", window=WINDOW))
    for _ in range(50):
        assert isinstance(other.ask(Ping()), PingReply)
    slow.send(Stdin(b"at last\n"))
    assert slow.line() == b"at last"


def test_a_command_whose_output_nobody_takes_keeps_no_other_waiting(line: Line) -> None:
    flood, other = line.host(), line.host()
    flood.start(Exec(command="yes", window=WINDOW))
    for _ in range(50):
        assert isinstance(other.ask(Ping()), PingReply)
    assert sum(len(text) for text in line.heard[1]) < 3 * WINDOW
    flood.close()
    assert other.run(Exec(command="exit 3", window=WINDOW)).last == Exit(3)


def test_a_command_that_takes_no_input_keeps_no_other_waiting(line: Line) -> None:
    stuck, other = line.host(), line.host()
    stuck.start(Exec(command="sleep 1000", window=WINDOW), *[Stdin(bytes(1 << 14))] * 4)
    assert other.run(Exec(command="echo hi", window=WINDOW)) == Outcome(b"hi\n", b"", Exit(0))


def test_a_conversation_that_floods_is_ended_alone(line: Line) -> None:
    stuck, other = line.host(), line.host()
    stuck.start(Exec(command="echo $$; exec sleep 1000", window=WINDOW))
    child = int(stuck.line())
    stuck.send(*[Stdin(bytes(1 << 16))] * 80)
    assert isinstance(stuck.next(), Credit)
    assert stuck.next() is None
    assert ended(child)
    assert isinstance(other.ask(Ping()), PingReply)


def test_a_long_stream_goes_both_ways_by_credit(line: Line) -> None:
    data = random.Random(4).randbytes(400_000)
    host = line.host()
    host.start(Exec(command="cat", window=WINDOW, raw=True))
    sent, allowed, received = 0, WINDOW, b""
    while len(received) < len(data):
        while sent < len(data) and allowed:
            piece = data[sent : sent + min(allowed, 1 << 14)]
            host.send(Stdin(piece))
            sent, allowed = sent + len(piece), allowed - len(piece)
        frame = host.frame()
        if isinstance(frame, Credit):
            allowed += frame.n
        else:
            assert isinstance(frame, Stdout)
            received += frame.d
            host.send(Credit(len(frame.d)))
    host.send(EndOfInput())
    assert (received, host.outcome().last) == (data, Exit(0))


@pytest.mark.parametrize("window", [None, 1 << 21])
def test_a_command_needs_a_window_that_is_bounded(line: Line, window: int | None) -> None:
    last = line.host().run(Exec(command="true", window=window)).last
    assert isinstance(last, NotStarted)
    assert last.code == "bad_request"
    assert "window" in last.m


def test_leaving_a_conversation_kills_its_command(line: Line) -> None:
    host, other = line.host(), line.host()
    host.start(Exec(command="echo $$; exec sleep 1000", window=WINDOW))
    child = int(host.line())
    host.close()
    assert isinstance(other.ask(Ping()), PingReply)
    assert ended(child)


def test_one_conversation_too_many_is_told_so(line: Line) -> None:
    hosts = [line.host() for _ in range(64)]
    for host in hosts:
        assert isinstance(host.ask(Ping()), PingReply)
    refused = line.host()
    failure = refused.refused(Ping())
    assert failure.code == "busy"
    assert refused.next() is None
    assert isinstance(hosts[0].ask(Ping()), PingReply)


def test_the_next_host_gets_nothing_of_one_that_died_amid_a_line() -> None:
    with terminal() as (fd, path), serving(path) as process:
        first = Line(fd, "first")
        first.sync()
        before = usage(process)
        running, busy = first.host(), first.host()
        running.start(Exec(command="echo $$; exec sleep 1000", window=WINDOW))
        child = int(running.line())
        busy.start(Exec(command="yes", window=WINDOW))
        os.set_blocking(fd, True)
        os.write(fd, b'{"id":9,"op":"exec","command":"touch /no')
        second = Line(fd, "second")
        second.sync()
        assert ended(child)
        assert isinstance(second.host().ask(Ping()), PingReply)
        for number, heard in second.heard.items():
            assert not heard, number
        third = Line(fd, "third")
        third.sync()
        host = third.host()
        # The one connection that was asked for: its thread and the two ends of its socket pair.
        while usage(process) != Usage(before.threads + 1, before.descriptors + 2, 0):
            assert isinstance(host.ask(Ping()), PingReply)


def test_an_agent_that_comes_later_or_again_is_found() -> None:
    with terminal() as (fd, path):
        with serving(path):
            line = Line(fd, "one")
            line.sync()
            host = line.host()
            assert isinstance(host.ask(Ping()), PingReply)
        with serving(path):
            with pytest.raises(WireError, match="started anew"):
                host.ask(Ping())
            again = Line(fd, "two")
            again.sync()
            assert isinstance(again.host().ask(Ping()), PingReply)


def garbage(rng: random.Random) -> bytes:
    openings = [
        b"",
        b'{"id":1,',
        b'{"id":1,"op":"ping"}',
        b'{"id":1,"op":"exec","argv":["true"]',
        b"\xff",
        b"{" * 90,
    ]
    return rng.choice(openings) + rng.randbytes(rng.randrange(60)).replace(b"\xff", b"") + b"\n"


@pytest.mark.parametrize("lines", [500, pytest.param(10_000, marks=pytest.mark.full)])
def test_garbage_spoils_no_line(lines: int) -> None:
    rng = random.Random(3)
    with terminal() as (fd, path), serving(path) as process:
        line = Line(fd, "noise")
        line.sync()
        for _ in range(lines):
            line.out += garbage(rng)
            while line.out:
                # What is answered to garbage names no conversation of ours.
                line.pump()
        anew = Line(fd, "clean")
        anew.sync()
        host = anew.host()
        assert host.run(Exec(command="echo fine", window=WINDOW)).stdout == b"fine\n"
        other = anew.host()
        while usage(process).children or usage(process).threads > 4:
            assert not isinstance(other.ask(Ping()), Failure)
