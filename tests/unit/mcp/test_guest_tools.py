"""`exec` and `files` in a played guest: bounded, told as they come, their rest as a resource."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.mcp_lab import GUEST, MODES, call, inside, refused, values, words, write_lab

LONG = str(GUEST["commands"]["long"]["stdout"])  # type: ignore[index]


@pytest.mark.parametrize("mode", MODES)
def test_a_command_tells_status_and_output(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "observe", "shell"), mode) as client:
            ran = await values(client, "exec", machine="desk", command="uname -r", cwd="/tmp", env={"A": "b"})
            assert (ran["status"], ran["stdout"], ran["stdout_bytes"]) == (0, "6.1.0-57-cloud-amd64\n", 21)
            ran = await values(client, "exec", machine="desk", command="none")
            assert (ran["status"], ran["stdout"], ran["stderr"]) == (127, "", "not found\n")
            result = await call(client, "exec", machine="desk", command="false")
            assert not result.is_error
            assert (result.structured_content or {})["stderr"] == "no\N{REPLACEMENT CHARACTER}[2J\n"
            assert words(result).startswith("It ended with status 1.\nWhat stands between")
            assert "\x1b" not in words(result)

    asyncio.run(ask())


@pytest.mark.parametrize("mode", MODES)
def test_a_long_output_is_told_in_part_and_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    told: list[str | None] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def ask() -> str:
        async with inside(write_lab(tmp_path, "observe", "shell"), mode) as client:
            result = await client.call_tool(
                "exec", {"machine": "desk", "command": "long"}, progress_callback=progress
            )
            ran: dict[str, Any] = result.structured_content or {}
            assert ran["stdout_bytes"] == len(LONG)
            assert ran["stdout"].startswith("line 0\nline 1\n")
            assert ran["stdout"].endswith("line 19998\nline 19999\n")
            assert "bytes left out" in ran["stdout"]
            assert len(ran["stdout"]) < 12_200
            rest = ran["stdout_rest"]
            assert len(list(folder.iterdir())) == 1
            uri = rest["uri"].removesuffix("/0")
            parts = [await client.read_resource(f"{uri}/{number}") for number in range(rest["parts"])]
            assert "".join(part.contents[0].text for part in parts) == LONG  # type: ignore[union-attr]
            for name in (
                f"{uri}/{rest['parts']}",
                f"{uri}/-1",
                f"{uri}/x",
                "reflexarc://outputs/..%2f..%2fetc/0",
            ):
                with pytest.raises(MCPError):
                    await client.read_resource(name)
            return str(uri)

    asyncio.run(ask())
    assert told
    assert all((message and message.startswith("line")) or "line" in str(message) for message in told)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("mode", MODES)
def test_files_are_written_and_read_back(tmp_path: Path, mode: str) -> None:
    data = bytes(range(256))

    async def ask() -> None:
        async with inside(write_lab(tmp_path, "observe", "files"), mode) as client:
            assert (await values(client, "files", machine="desk", action="read", path="/etc/hostname"))[
                "text"
            ] == "lab\n"
            for given in ({"text": "a\tb\n"}, {"base64": base64.b64encode(data).decode()}):
                await values(client, "files", machine="desk", action="write", path="/tmp/x", **given)
                read = await values(client, "files", machine="desk", action="read", path="/tmp/x")
                assert {key: read[key] for key in given} == given
            absent = await refused(client, "files", machine="desk", action="read", path="/none")
            assert absent["error"] == "OperationRejectedError"

    asyncio.run(ask())


IMPOSSIBLE: list[tuple[str, dict[str, Any]]] = [
    ("files", {"action": "write", "path": "/x"}), ("files", {"action": "write", "path": "/x", "base64": "?"}),
    ("files", {"action": "write", "path": "/x", "text": "a", "base64": "YQ=="}),
    ("files", {"action": "read", "path": "etc/hostname"}), ("files", {"action": "read", "path": "/a\0b"}),
    ("files", {"action": "delete", "path": "/x"}), ("exec", {"command": "x", "timeout": 0}),
    ("exec", {"command": "x", "timeout": 1e9}), ("exec", {"command": "x" * 40_000}),
    ("exec", {"command": "x", "env": {"A": 1}}), ("exec", {}),
]  # fmt: skip


def test_what_can_not_be_is_refused(tmp_path: Path) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path, "*")) as client:
            for tool, arguments in IMPOSSIBLE:
                await refused(client, tool, machine="desk", **arguments)

    asyncio.run(ask())
