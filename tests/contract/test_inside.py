"""What answers inside of a guest: commands and files; every driver that lends them keeps to this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import pytest
from tests.agents import Agent, running
from tests.lent import lent
from tests.sshd import inside as over_ssh

from reflexarc.drivers.agent.driver import AgentCapabilities
from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import Ran, ReplayGuest, ReplayScript
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Command, Exited, Files, Output, Shell, Stream

BOTH = "echo out; echo err >&2; exit 5"
MANY = "head -c 100000 /dev/zero"


class ThroughAgent:
    """A shell, and files, through a driver that is opened for each call."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def _lent(self) -> AbstractAsyncContextManager[AgentCapabilities]:
        return lent(self._socket.parent, transport="unix", path=self._socket)

    async def run(self, command: Command) -> AsyncGenerator[Output | Exited, None]:
        async with self._lent() as found:
            assert found.shell is not None
            async with aclosing(found.shell.run(command)) as pieces:
                async for piece in pieces:
                    yield piece

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._lent() as found:
            assert found.files is not None
            async with aclosing(found.files.read(path)) as pieces:
                async for piece in pieces:
                    yield piece

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        async with self._lent() as found:
            assert found.files is not None
            await found.files.write(path, pieces, mode=mode)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "a.sock") as agent:
        yield agent


@pytest.fixture(params=["replay", "agent", "ssh"])
def inside(request: pytest.FixtureRequest) -> tuple[Shell, Files]:
    if request.param == "ssh":
        return over_ssh(request.getfixturevalue("sshd"), request.getfixturevalue("ssh_state"))
    if request.param == "agent":
        through = ThroughAgent(request.getfixturevalue("agent").path)
        return through, through
    guest = ReplayGuest(
        commands={BOTH: Ran(b"out\n", b"err\n", 5), "echo a  b": Ran(b"a  b\n"), MANY: Ran(bytes(100_000))},
        files={"/etc/hostname": b"lab\n"},
    )
    played = open_replay(ReplayScript(guest=guest))
    assert played.shell is not None
    assert played.files is not None
    return played.shell, played.files


def ran(shell: Shell, command: Command) -> tuple[dict[Stream, bytes], list[int]]:
    async def run() -> tuple[dict[Stream, bytes], list[int]]:
        said = dict.fromkeys(Stream, b"")
        ends: list[int] = []
        async with aclosing(shell.run(command)) as pieces:
            async for piece in pieces:
                match piece:
                    case Output(stream, data):
                        assert not ends
                        said[stream] += data
                    case Exited(status):
                        ends.append(status)
        return said, ends

    return asyncio.run(run())


def test_the_streams_are_apart_and_the_end_is_last(inside: tuple[Shell, Files]) -> None:
    assert ran(inside[0], Command(line=BOTH)) == ({Stream.STDOUT: b"out\n", Stream.STDERR: b"err\n"}, [5])


def test_words_are_given_as_they_are(inside: tuple[Shell, Files]) -> None:
    assert ran(inside[0], Command(argv=("echo", "a  b")))[0][Stream.STDOUT] == b"a  b\n"


def test_nothing_of_much_output_is_missing(inside: tuple[Shell, Files]) -> None:
    assert ran(inside[0], Command(line=MANY)) == ({Stream.STDOUT: bytes(100_000), Stream.STDERR: b""}, [0])


def test_a_command_that_is_not_there_ends_with_127(inside: tuple[Shell, Files]) -> None:
    assert ran(inside[0], Command(line="nosuchcommand"))[1] == [127]


def test_a_file_comes_back_as_it_was_written(inside: tuple[Shell, Files]) -> None:
    files, content = inside[1], bytes(range(256)) * 2000

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 100_000):
            yield content[start : start + 100_000]

    async def run() -> bytes:
        await files.write("/tmp/reflexarc-test", pieces(), mode=0o600)
        async with aclosing(files.read("/tmp/reflexarc-test")) as read:
            return b"".join([piece async for piece in read])

    assert asyncio.run(run()) == content


def test_a_file_that_is_not_there_is_told(inside: tuple[Shell, Files]) -> None:
    async def run() -> None:
        with pytest.raises(OperationRejectedError):
            async with aclosing(inside[1].read("/nowhere/at/all")) as read:
                await anext(read)

    asyncio.run(run())
