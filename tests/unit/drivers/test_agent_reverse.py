"""Waiting for agents that call: on a socket for this user alone, without touching what the process is."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from reflexarc.drivers.agent.reverse import Reverse


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o022])
def test_the_socket_is_private_and_files_made_meanwhile_are_as_ever(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "agents"

    async def meanwhile() -> list[int]:
        reverse = Reverse(path)
        waiting = asyncio.create_task(reverse.connect())
        modes: list[int] = []
        while not (modes and path.exists() and len(modes) > 5):
            await asyncio.sleep(0)
            made = tmp_path / f"made{len(modes)}"
            made.touch()
            modes.append(mode(made))
        modes.append(mode(path))
        _, writer = await asyncio.open_unix_connection(path)
        await (await waiting).close()
        writer.close()
        await reverse.close()
        return modes

    before = os.umask(mask)
    try:
        *made, socket = asyncio.run(meanwhile())
    finally:
        os.umask(before)
    assert set(made) == {0o666 & ~mask}
    assert socket == 0o600
    assert not path.exists()


def test_a_socket_that_can_not_be_is_tried_anew(tmp_path: Path) -> None:
    async def tries() -> None:
        reverse = Reverse(tmp_path / ("x" * 120))
        for _ in range(2):
            with pytest.raises(OSError, match="too long"):
                await reverse.connect()
        await reverse.close()

    asyncio.run(tries())
