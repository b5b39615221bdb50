"""Agents and guests without an end: output, waits and files that go on, change or don't fit; each call ends in time."""

from __future__ import annotations

import asyncio
import base64
import resource
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_agent_hostile import facing, speaking
from tests.lent import content, cut

from reflexarc.drivers.agent.files import IN_MEMORY
from reflexarc.drivers.agent.shell import AgentShell
from reflexarc.errors import ConfigError, OperationRejectedError, OperationTimeoutError
from reflexarc.machine.accessibility import Selector
from reflexarc.machine.capabilities import Command

NODE = {
    "ref": 1, "role": "AXButton", "title": "Build", "enabled": True, "focused": False,
    "frame": {"x": 0, "y": 0, "w": 1, "h": 1}, "actions": [], "children": [],
}  # fmt: skip


def test_a_command_whose_output_never_pauses_is_given_up_after_its_time(tmp_path: Path) -> None:
    """Its reader is the slower one: it never finds nothing there, so it never waits."""

    async def act(found: Any) -> None:
        with pytest.raises(OperationTimeoutError, match=r"did not end within 0\.2 s"):
            await drained(AgentShell(found.agent, grace=0.1), Command(line="yes", timeout=0.2))

    frames = b'{"t":"o","d":"AAAA"}\n' * 100_000 + b'{"t":"x","code":0}\n'
    facing(tmp_path, speaking(lambda request: frames), act)


async def drained(shell: AgentShell, command: Command) -> None:
    """Run a command, and let others have many turns between two pieces of its output."""
    async with aclosing(shell.run(command)) as pieces:
        async for _ in pieces:
            for _ in range(20):
                await asyncio.sleep(0)


def test_an_element_that_is_there_only_for_the_one_who_waits_ends_the_wait(tmp_path: Path) -> None:
    answers = iter([NODE, None] * 50)

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        node = next(answers)
        return {"ok": True, "node": node} if node else {"ok": False, "error": "none", "code": "timeout"}

    async def act(found: Any) -> None:
        with pytest.raises(OperationTimeoutError, match="was not there in time"):
            await found.accessibility.wait(Selector(name="Build"), timeout=0.0)

    facing(tmp_path, speaking(answer), act)


@pytest.mark.parametrize(
    ("sizes", "changed"),
    [
        pytest.param((10, 10, 3), True, id="truncated after the first piece"),
        pytest.param((10, 3, 0), True, id="truncated again and again"),
        pytest.param((10, 10, 20), False, id="appended to"),
        pytest.param((0, 0, 0), False, id="made as it is read"),
        pytest.param((4096, 4096, 4096), False, id="of one page, whatever it holds"),
    ],
)
def test_a_file_that_gets_smaller_while_it_is_read_is_not_called_whole(
    tmp_path: Path, sizes: tuple[int, int, int], changed: bool
) -> None:
    """sizes: what is told of the file with the first piece, the second, and its digest."""

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        at = request["offset"]
        told = sizes[2] if request.get("sha256") else sizes[at // 4]
        data = b"" if request.get("sha256") else b"abcd" if at == 0 else b"efgh"
        return {
            "ok": True, "data": base64.b64encode(data).decode(), "offset": at, "size": told, "mode": 420,
            "eof": at > 0, "sha256": "0" * 64,
        }  # fmt: skip

    async def act(found: Any) -> None:
        if not changed:
            assert await content(found.files, "/f") == b"abcdefgh"
            return
        with pytest.raises(OperationRejectedError, match="was changed while it was read") as raised:
            await content(found.files, "/f")
        assert raised.value.code == "changed"

    facing(tmp_path, speaking(answer), act)


@pytest.mark.parametrize("size", [IN_MEMORY + 1, 2 * IN_MEMORY])
def test_a_file_for_which_this_host_has_no_room_is_not_sent(tmp_path: Path, size: int) -> None:
    heard: list[Mapping[str, Any]] = []

    async def act(found: Any) -> None:
        with limited(1 << 20), pytest.raises(ConfigError, match=r"TMPDIR .* nothing of it was sent"):
            await found.files.write("/f", cut(bytes(size)), mode=0o600)

    facing(tmp_path, speaking(lambda request: {"ok": True}, heard), act)
    assert not [request for request in heard if request["op"] == "write_file"]


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Files of this process take so many bytes and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
