"""Output as bytes, for whole files and devices."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.agents import Agent, Outcome, running

from reflexarc_wire.frames import Credit, EndOfInput, Exit, Stderr, Stdin, Stdout
from reflexarc_wire.requests import Exec
from reflexarc_wire.values import Terminal

GROWTH = 32 << 10


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


def test_any_bytes_go_through_unharmed(agent: Agent) -> None:
    data = random.Random(6).randbytes(3_000_000)
    frames = [Stdin(data[start : start + 70_000]) for start in range(0, len(data), 70_000)]
    found = agent.run(Exec(command="cat; echo end >&2", raw=True), *frames, EndOfInput())
    assert found == Outcome(data, b"end\n", Exit(0))


def test_a_window_counts_raw_bytes(agent: Agent) -> None:
    with agent.host() as host:
        host.start(Exec(command="head -c 5000 /dev/zero", window=1000, raw=True))
        received = 0
        while received < 5000:
            frame = host.frame()
            assert isinstance(frame, Stdout)
            received += len(frame.d)
            assert len(frame.d) <= 1000
            host.send(Credit(len(frame.d)))
        assert host.outcome() == Outcome(b"", b"", Exit(0))


def test_a_terminal_is_raw_too(agent: Agent) -> None:
    found = agent.run(Exec(command="echo hi; exit 2", pty=Terminal(80, 24), raw=True))
    assert (found.stdout, found.last) == (b"hi\r\n", Exit(2))


def stream(agent: Agent, size: int, *, raw: bool) -> int:
    """Pass zeros through and return how many came."""
    received = 0
    with agent.host() as host:
        host.start(Exec(argv=("head", "-c", str(size), "/dev/zero"), raw=raw))
        while not isinstance(frame := host.frame(), Exit):
            assert isinstance(frame, (Stdout, Stderr))
            received += len(frame.d)
    return received


@pytest.mark.parametrize("size", [64 << 20, pytest.param(1 << 30, marks=pytest.mark.full)])
@pytest.mark.parametrize("raw", [True, False])
def test_what_passes_through_is_not_kept(agent: Agent, size: int, raw: bool) -> None:
    stream(agent, 1 << 20, raw=raw)
    before = agent.resident_kib()
    assert stream(agent, size, raw=raw) == size
    assert agent.resident_kib() - before < GROWTH
