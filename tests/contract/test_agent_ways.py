"""The real agent by every way that leads to it from a host."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.agents import PATIENCE, SOURCES, Agent, command, ended, environment, running
from tests.lent import TOKEN, content, cut, hybrid, lent, peer, pump, ran, serial

from reflexarc.drivers.agent.driver import AgentCapabilities
from reflexarc.drivers.agent.transports import vsock_address
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError, OperationRejectedError
from reflexarc.machine.capabilities import Command, Exited, Output

Open = Callable[[Path], AbstractAsyncContextManager[AgentCapabilities]]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "a.sock") as agent:
        yield agent


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a token, and a certificate for the name guest with its key."""
    folder = tmp_path_factory.mktemp("secrets")
    for name in ("token", "other"):
        (folder / name).write_text(TOKEN if name == "token" else TOKEN[::-1], "ascii")
        (folder / name).chmod(0o600)
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for name in ("guest", "stranger"):
        named = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2"]
        subprocess.run([*new, *named, *files], cwd=folder, check=True, capture_output=True)
    return folder


@contextmanager
def on_tcp(secrets: Path, *, tls: bool) -> Iterator[int]:
    """Run an agent on a loopback port, and yield the port."""
    arguments = ["--tcp", "127.0.0.1:0", "--token-file", str(secrets / "token")]
    if tls:
        arguments += ["--tls-cert", str(secrets / "guest.pem"), "--tls-key", str(secrets / "guest.key")]
    process = subprocess.Popen(command(*arguments), env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"tcp:127\.0\.0\.1:(\d+)$", process.stderr.readline())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stderr.close()


async def works(found: AgentCapabilities) -> None:
    """Commands and files, several at once."""
    assert (await found.agent.look()).version == 3
    told = await asyncio.gather(*(ran(found.shell, Command(line=f"echo {n}; exit {n}")) for n in range(4)))
    assert told == [(f"{n}\n".encode(), b"", n) for n in range(4)]
    many = Command(argv=("head", "-c", "3000000", "/dev/zero"))
    assert await ran(found.shell, many) == (bytes(3_000_000), b"", 0)
    path, data = f"/tmp/reflexarc-way-{os.getpid()}", os.urandom(700_000)
    assert found.files is not None
    await found.files.write(path, cut(data), mode=0o600)
    try:
        assert await content(found.files, path) == data
    finally:
        os.unlink(path)


def test_over_a_unix_socket(agent: Agent, tmp_path: Path) -> None:
    async def run() -> None:
        async with lent(tmp_path, transport="unix", path=agent.path) as found:
            await works(found)

    asyncio.run(run())


def test_over_the_socket_of_a_vsock(agent: Agent, tmp_path: Path) -> None:
    async def run() -> None:
        async with peer(tmp_path / "v.sock", hybrid(agent.path)):
            async with lent(tmp_path, transport="hybrid", path=tmp_path / "v.sock") as found:
                await works(found)
            async with lent(tmp_path, transport="hybrid", path=tmp_path / "v.sock", port=9) as found:
                with pytest.raises(ConnectError, match="nothing in the guest listens on port 9"):
                    await found.agent.look()

    asyncio.run(run())


def test_over_a_serial_port_that_all_conversations_share(agent: Agent, tmp_path: Path) -> None:
    async def run() -> None:
        settings = {"transport": "virtio_serial", "path": tmp_path / "port"}
        async with peer(tmp_path / "port", serial(agent.path)), lent(tmp_path, **settings) as found:
            await works(found)
            async with lent(tmp_path, **settings) as second:
                with pytest.raises(ConnectError, match="another program of this host has the port"):
                    await second.agent.look()
            assert found.shell is not None
            async with aclosing(found.shell.run(Command(line="echo $$; sleep 1000"))) as pieces:
                first = await anext(pieces)
                assert await ran(found.shell, Command(line="echo beside")) == (b"beside\n", b"", 0)
            assert isinstance(first, Output)
            assert await asyncio.to_thread(ended, int(first.data))
        async with lent(tmp_path, **settings) as found:
            with pytest.raises(ConnectError):
                await found.agent.look()

    asyncio.run(run())


def test_a_serial_port_that_is_lost_is_begun_anew(agent: Agent, tmp_path: Path) -> None:
    async def run() -> None:
        async with lent(tmp_path, transport="virtio_serial", path=tmp_path / "port") as found:
            for _ in range(2):
                async with peer(tmp_path / "port", serial(agent.path)):
                    assert await ran(found.shell, Command(line="echo up")) == (b"up\n", b"", 0)
                    control = await found.agent.control("shell.exec")
                with pytest.raises(ConnectionLostError):
                    await control.conversation.next(operation="shell.exec")
                (tmp_path / "port").unlink()

    asyncio.run(run())


def test_over_the_pipes_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))

    async def run() -> None:
        async with lent(tmp_path, transport="stdio", command=command("--stdio")) as found:
            await works(found)
        fails = [sys.executable, "-c", "import sys; sys.exit('Permission denied (publickey).')"]
        async with lent(tmp_path, transport="stdio", command=fails) as found:
            with pytest.raises(ConnectError, match=r"Permission denied \(publickey\)\."):
                await found.agent.look()
        async with lent(tmp_path, transport="stdio", command=["/no/such/program"]) as found:
            with pytest.raises(ConnectError, match="No such file"):
                await found.agent.look()

    asyncio.run(run())


def test_over_tcp_with_a_token(secrets: Path, tmp_path: Path) -> None:
    async def run(port: int) -> None:
        settings = {"transport": "tcp", "host": "127.0.0.1", "port": port}
        async with lent(tmp_path, **settings, token=f"file:{secrets / 'token'}") as found:
            await works(found)
        async with lent(tmp_path, **settings, token=f"file:{secrets / 'other'}") as found:
            with pytest.raises(OperationRejectedError, match=r"its token first; look at `token`") as refused:
                await found.agent.look()
            assert refused.value.code == "not_authorized"
            assert TOKEN[::-1] not in str(refused.value)

    with on_tcp(secrets, tls=False) as port:
        asyncio.run(run(port))


def test_over_tls_only_the_expected_certificate_is_spoken_to(secrets: Path, tmp_path: Path) -> None:
    async def run(port: int) -> None:
        settings = {
            "transport": "tcp",
            "host": "127.0.0.1",
            "port": port,
            "token": f"file:{secrets / 'token'}",
        }
        async with lent(tmp_path, **settings, ca=secrets / "guest.pem", server_name="guest") as found:
            await works(found)
        for wrong in (
            {"ca": secrets / "stranger.pem", "server_name": "guest"},
            {"ca": secrets / "guest.pem"},
        ):
            async with lent(tmp_path, **settings, **wrong) as found:
                with pytest.raises(ConnectError, match="not the one that is expected"):
                    await found.agent.look()

    with on_tcp(secrets, tls=True) as port:
        asyncio.run(run(port))


@asynccontextmanager
async def calling(agent: Path, waiting: Path) -> AsyncIterator[None]:
    """An agent in a guest that can't listen: it keeps one connection waiting, which its first bytes make busy."""
    pumps: set[asyncio.Task[None]] = set()

    async def call() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(waiting)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            try:
                first = await reader.read(1 << 16)
            except asyncio.CancelledError:
                writer.transport.abort()
                raise
            inside_reader, inside_writer = await asyncio.open_unix_connection(agent)
            inside_writer.write(first)
            for way in ((reader, inside_writer), (inside_reader, writer)):
                pumps.add(asyncio.create_task(pump(*way)))

    task = asyncio.create_task(call())
    try:
        yield
    finally:
        for each in (task, *pumps):
            each.cancel()
        await asyncio.gather(task, *pumps, return_exceptions=True)


def test_an_agent_that_calls_is_waited_for(agent: Agent, tmp_path: Path) -> None:
    async def run() -> None:
        settings = {"transport": "reverse", "path": tmp_path / "v"}
        async with calling(agent.path, tmp_path / "v_2035"), lent(tmp_path, **settings) as found:
            await works(found)
            async with lent(tmp_path, **settings) as second:
                with pytest.raises(ConnectError, match="another program of this host waits for agents"):
                    await second.agent.look()
        assert not (tmp_path / "v_2035").exists()

    asyncio.run(run())


def test_the_address_of_a_guest_is_laid_out_as_each_system_wants_it() -> None:
    assert vsock_address(3, 2035, darwin=False).hex() == "28000000f3070000" + "03000000" + "00000000"
    assert vsock_address(3, 2035, darwin=True).hex() == "0c280000f3070000" + "03000000"


def test_a_guest_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def run() -> None:
        for settings in ({"transport": "unix", "path": tmp_path / "none"}, {"transport": "vsock", "cid": 77}):
            async with lent(tmp_path, **settings) as found:
                with pytest.raises(
                    ConnectError, match="is the guest up, and the agent running in it"
                ) as error:
                    await ran(found.shell, Command(line="true"))
                assert error.value.machine == "guest"
                assert not await found.agent.ready("exec")

    asyncio.run(run())


def test_an_agent_that_comes_late_is_found_and_one_that_was_started_anew_too(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"

    async def run() -> None:
        async with lent(tmp_path, transport="unix", path=path) as found:
            assert not await found.agent.ready("exec")
            with running(path):
                assert not await found.agent.ready("exec"), "it is not asked again for nothing"
                found.agent.refresh()
                assert await found.agent.ready("exec")
            with running(path):
                assert await ran(found.shell, Command(line="echo up")) == (b"up\n", b"", 0)
            with pytest.raises(ConnectError):
                await ran(found.shell, Command(line="true"))

    asyncio.run(run())


def test_closing_the_output_kills_the_group(agent: Agent, tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with lent(tmp_path, transport="unix", path=agent.path) as found:
            assert found.shell is not None
            async with aclosing(found.shell.run(Command(line="sleep 1000 & echo $$ $!; wait"))) as pieces:
                first = await anext(pieces)
            assert isinstance(first, Output)
            return [int(word) for word in first.data.split()]

    for pid in asyncio.run(run()):
        assert ended(pid)


def test_a_reader_that_is_slow_holds_the_command_up(agent: Agent, tmp_path: Path) -> None:
    """What is on its way is bounded by the window, whatever the sockets between would hold."""
    written = tmp_path / "written"
    written.touch()
    loop = f"n=0; while [ $n -lt 64 ]; do head -c 131072 /dev/zero; n=$((n+1)); echo >>{written}; done"

    async def run() -> tuple[int, int]:
        async with lent(tmp_path, transport="unix", path=agent.path) as found:
            assert found.shell is not None
            async with aclosing(found.shell.run(Command(line=loop))) as pieces:
                await anext(pieces)
                held = -1
                while held != (held := written.stat().st_size):
                    await ran(found.shell, Command(line="true"))
                rest = [piece async for piece in pieces]
                assert rest[-1] == Exited(0)
                return held, sum(len(piece.data) for piece in rest if isinstance(piece, Output))

    held, rest = asyncio.run(run())
    assert held < 20
    assert rest > 44 * 131072


def test_a_command_whose_agent_is_killed_is_in_doubt(tmp_path: Path) -> None:
    async def run(agent: Agent) -> None:
        async with lent(tmp_path, transport="unix", path=agent.path) as found:
            assert found.shell is not None
            async with aclosing(found.shell.run(Command(line="echo up; sleep 1000"))) as pieces:
                await anext(pieces)
                agent.process.kill()
                with pytest.raises(ConnectionLostError, match="may have happened"):
                    await anext(pieces)

    with pytest.raises(AssertionError), running(tmp_path / "a.sock") as agent:
        asyncio.run(run(agent))


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("env:REFLEXARC_NO_SUCH", "is not set"),
        ("file:none", "can't read"),
        ("file:open", "chmod 600"),
        ("file:short", "at least 32"),
    ],
)
def test_a_token_that_cannot_be_had_is_a_mistake_of_the_inventory(
    tmp_path: Path, token: str, problem: str
) -> None:
    for name, text, mode in (("open", TOKEN, 0o644), ("short", "x" * 31, 0o600)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    async def run() -> None:
        async with lent(tmp_path, transport="tcp", host="127.0.0.1", token=token):
            pass

    with pytest.raises(ConfigError, match=problem):
        asyncio.run(run())
