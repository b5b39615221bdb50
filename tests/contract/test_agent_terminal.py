from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

import pytest
from tests.agents import Agent, Outcome, running

from reflexarc_wire.frames import EndOfInput, Exit, NotStarted, Resize, Stdin
from reflexarc_wire.requests import Exec
from reflexarc_wire.values import Terminal

SIZE = Terminal(80, 24)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


def test_a_command_on_a_terminal_has_it_as_its_own(agent: Agent) -> None:
    script = "stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo own >/dev/tty; exit 3"
    found = agent.run(Exec(argv=("sh", "-c", script), pty=SIZE))
    assert found.stdout == b"24 80\r\nall\r\nown\r\n"
    assert found.last == Exit(3)


def test_a_resized_terminal_tells_its_command(agent: Agent) -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    with agent.host() as host:
        host.start(Exec(argv=("sh", "-c", script), pty=SIZE))
        assert host.line() == b"ready"
        host.send(Resize(132, 43))
        assert host.outcome().stdout == b"43 132\r\n"


def test_control_c_interrupts(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(argv=("sh", "-c", "echo ready; exec sleep 1000"), pty=SIZE))
        assert host.line() == b"ready"
        host.send(Stdin(b"\x03"))
        assert host.outcome().last == Exit(130)


def test_the_end_of_input_is_the_terminals_own(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(argv=("sh", "-c", "stty -echo; echo ready; cat"), pty=SIZE))
        assert host.line() == b"ready"
        host.send(Stdin(b"hi\n"), EndOfInput())
        assert host.outcome() == Outcome(b"hi\r\n", b"", Exit(0))


def test_all_output_comes_before_the_exit(agent: Agent) -> None:
    for _ in range(10):
        found = agent.run(Exec(argv=("seq", "20000"), pty=SIZE))
        assert found.stdout.split() == [str(number).encode() for number in range(1, 20001)]
        assert found.last == Exit(0)


def test_a_background_child_on_the_terminal_does_not_hold_the_exit(agent: Agent) -> None:
    found = agent.run(Exec(argv=("sh", "-c", "nohup setsid sleep 30 & echo x"), pty=SIZE))
    assert b"x\r\n" in found.stdout
    assert found.last in (Exit(0), Exit(0, truncated=True))


def test_its_account_owns_the_terminal(agent: Agent) -> None:
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    found = agent.run(Exec(argv=("sh", "-c", "test -O $(tty) && id -un"), user=user, pty=SIZE))
    assert found.stdout.decode() == f"{user}\r\n"


def test_a_program_that_is_not_there_says_so(agent: Agent) -> None:
    last = agent.run(Exec(argv=("no-such-program",), pty=SIZE)).last
    assert isinstance(last, NotStarted)
    assert "no-such-program" in last.m
