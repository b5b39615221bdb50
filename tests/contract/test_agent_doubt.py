"""What is left over when an agent dies, hangs or says too much: nothing twice, no endless wait, no secret told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agents import ended, running
from tests.contract.test_agent_hostile import facing, raw, serve_plainly, speaking
from tests.lent import TOKEN, Serve, cut, hybrid, lent, peer, ran, serial
from tests.sshd import Server, inside

from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.program import Program
from reflexarc.drivers.agent.transports import Unix
from reflexarc.errors import ConfigError, ConnectionLostError, MachineError, ReflexarcError
from reflexarc.machine.capabilities import Capabilities, Command
from reflexarc.machine.reach import Lent
from reflexarc.machine.routing import route
from reflexarc_wire.replies import AxAppsReply
from reflexarc_wire.requests import AxApps


def test_a_conversation_that_hurried_callers_left_ends_when_their_reply_is_overdue(tmp_path: Path) -> None:
    async def act(found: Any) -> None:
        conversation = (await found.agent.control("x")).conversation
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await conversation.ask(AxApps(), AxAppsReply, operation="x", timeout=0.3)
        with pytest.raises(ConnectionLostError):
            await conversation.ask(AxApps(), AxAppsReply, operation="x", timeout=20)
        assert (await found.agent.control("x")).conversation is not conversation

    facing(tmp_path, speaking(lambda request: b""), act)


def test_a_late_reply_keeps_the_conversation(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: list[bytes] = []
        while line := await reader.readline():
            request = json.loads(line)
            told: dict[str, Any] = {"ok": True, "apps": [], "id": request["id"]}
            if request["op"] in ("ping", "hello"):
                told |= {"version": 3, "displays": [], "features": ["accessibility"], "readiness": {}}
                told |= {"boot_id": "b", "agent": "1", "os": "linux"}
            held.append(json.dumps(told).encode() + b"\n")
            if len(held) != 3:
                # The third waits for the fourth.
                writer.write(b"".join(held[2:] or held[-1:]) if len(held) != 2 else held[1])
                await writer.drain()

    async def act(found: Any) -> None:
        conversation = (await found.agent.control("x")).conversation
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await conversation.ask(AxApps(), AxAppsReply, operation="x", timeout=0.3)
        await conversation.ask(AxApps(), AxAppsReply, operation="x")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(conversation.next(operation="x"), 0.5)
        assert conversation.alive

    facing(tmp_path, serve, act)


ECHOED: list[tuple[str, Serve]] = [
    ("as no protocol", raw(TOKEN.encode() + b"\n")),
    ("as a field", raw(b'{"id":1,"ok":true,"version":"' + TOKEN.encode() + b'"}\n')),
    ("far out", raw(b'{"id":1,"ok":false,"error":"' + b"x" * 280 + TOKEN.encode() + b'","code":"c"}\n')),
    ("as a code", raw(b'{"id":1,"ok":false,"error":"e","code":"' + TOKEN.encode() + b'"}\n')),
    ("as a detail", raw(b'{"id":1,"ok":false,"error":"e","code":"unsupported","detail":"%b"}\n' % TOKEN.encode())),
]  # fmt: skip


@pytest.mark.parametrize(("how", "serve"), ECHOED, ids=[how for how, _ in ECHOED])
def test_a_peer_that_says_the_token_has_it_in_no_error(tmp_path: Path, how: str, serve: Serve) -> None:
    async def run() -> MachineError:
        async with peer(tmp_path / "p.sock", serve):
            agent = Agent(Unix(tmp_path / "p.sock"), TOKEN, "guest", patience=5)
            with pytest.raises(MachineError) as raised:
                await agent.control("agent.ready")
            await agent.close()
            return raised.value

    assert not told(asyncio.run(run()))


def test_a_program_that_prints_the_token_has_it_in_no_error() -> None:
    async def run() -> MachineError:
        program = Program(("sh", "-c", 'read line; echo "no: $line" >&2'))
        agent = Agent(program, TOKEN, "guest")
        with pytest.raises(MachineError) as raised:
            await agent.control("agent.ready")
        await agent.close()
        return raised.value

    error = asyncio.run(run())
    assert "no:" in str(error)
    assert not told(error)


def told(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, shows the token."""
    shown = [str(vars(error)), str(error)] if error is not None else []
    return any(TOKEN[:12] in one for one in shown) or (
        error is not None and not error.__suppress_context__ and told(error.__cause__ or error.__context__)
    )


@pytest.mark.parametrize("name", ["X; touch pwned; Y", "A B", "1A", "A\nB", "Ä", "$(x)", "a-b"])
def test_no_name_of_a_variable_is_a_command_to_an_old_agent(tmp_path: Path, name: str) -> None:
    async def act(found: Any) -> None:
        with pytest.raises(ConfigError, match="variable of the name"):
            await ran(found.shell, Command(argv=("true",), env={name: "v"}))

    facing(tmp_path, serve_plainly, act)


@pytest.mark.parametrize("way", ["unix", "hybrid", "virtio_serial"])
def test_a_command_whose_agent_dies_is_not_run_over_ssh_as_well(
    tmp_path: Path, sshd: Server, ssh_state: Path, way: str
) -> None:
    """The command counts itself, then ends its agent; the other way in would count once more."""
    counted = tmp_path / "counted"
    by_ssh = inside(sshd, ssh_state)

    async def run(agent: Path, pid: int) -> list[str]:
        at = agent
        leading: dict[str, Serve] = {"hybrid": hybrid(agent), "virtio_serial": serial(agent)}
        async with peer(tmp_path / "way.sock", leading.get(way, raw(b""))):
            at = agent if way == "unix" else tmp_path / "way.sock"
            async with lent(tmp_path, transport=way, path=at) as found:
                ssh = Lent("ssh", Capabilities(shell=by_ssh[0], files=by_ssh[1]))
                routed = route((Lent("agent", found, found.agent), ssh))
                with pytest.raises(ConnectionLostError, match="may have happened"):
                    await ran(routed.shell, Command(line=f"echo run >>{counted}; kill -9 {pid}; sleep 20"))
                once = counted.read_text().splitlines()
                # Until all its sockets are closed, what is sent to it is in doubt; afterwards the other way is taken.
                assert await asyncio.to_thread(ended, pid)
                assert (await ran(routed.shell, Command(line=f"echo next >>{counted}")))[2] == 0
                assert routed.files is not None
                await routed.files.write(str(tmp_path / "there"), cut(b"whole"), mode=0o600)
        return once

    with pytest.raises(AssertionError, match="-9"), running(tmp_path / "a.sock") as agent:
        assert asyncio.run(run(agent.path, agent.process.pid)) == ["run"]
    assert counted.read_text().splitlines() == ["run", "next"]
    assert (tmp_path / "there").read_bytes() == b"whole"


def test_names_that_no_resolver_takes_are_mistakes_of_the_inventory(tmp_path: Path) -> None:
    table = {"enabled": True, "transport": "tcp", "token": "env:TOKEN"}
    for key in ("host", "server_name"):
        for name in ("a..b", "x" * 80, ".x"):
            with pytest.raises(ReflexarcError, match=f"agent.{key}: must be a host's name"):
                asyncio.run(_opened(tmp_path, {**table, "host": "127.0.0.1", key: name}))


async def _opened(folder: Path, table: Mapping[str, Any]) -> None:
    async with lent(folder, **table):
        pass
