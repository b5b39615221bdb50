"""Files over SSH: any name, whole or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.sshd import Server, inside

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Command, Exited, Files

CONTENT = bytes(range(256)) * 4000
NAMES = [
    "plain",
    " a  b",
    "'",
    '"',
    "$(reboot)`x`",
    "-rf",
    "*",
    "\\",
    "a\nb",
    "\udcff\udc80",
    "ä\u200b",
    "!x",
    "~",
]


async def pieces(content: bytes = CONTENT) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 200_000):
        yield content[start : start + 200_000]


async def read(files: Files, path: str) -> bytes:
    async with aclosing(files.read(path)) as found:
        return b"".join([piece async for piece in found])


@pytest.mark.parametrize("name", NAMES)
def test_any_name_will_do(sshd: Server, ssh_state: Path, tmp_path: Path, name: str) -> None:
    _, files = inside(sshd, ssh_state)
    path = f"{tmp_path}/{name}"

    async def run() -> bytes:
        await files.write(path, pieces(), mode=0o640)
        return await read(files, path)

    assert asyncio.run(run()) == CONTENT
    assert os.listdir(tmp_path) == [name]
    assert os.stat(path).st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("content", [b"", b"x", b"\n", b"\0" * 60])
def test_small_files_come_whole(sshd: Server, ssh_state: Path, tmp_path: Path, content: bytes) -> None:
    _, files = inside(sshd, ssh_state)
    asyncio.run(files.write(f"{tmp_path}/file", pieces(content), mode=0o600))
    assert (tmp_path / "file").read_bytes() == content
    assert asyncio.run(read(files, f"{tmp_path}/file")) == content


def test_an_upload_that_breaks_off_leaves_what_was_there(
    sshd: Server, ssh_state: Path, tmp_path: Path
) -> None:
    shell, files = inside(sshd, ssh_state)
    (tmp_path / "file").write_text("before")

    async def broken() -> AsyncIterator[bytes]:
        yield CONTENT
        raise RuntimeError("the disk is gone")

    async def run() -> None:
        with pytest.raises(RuntimeError):
            await files.write(f"{tmp_path}/file", broken(), mode=0o600)
        alone = Command(line="until [ $(ls -A | wc -l) = 1 ]; do :; done", cwd=str(tmp_path), timeout=20)
        assert [end async for end in shell.run(alone)] == [Exited(0)]

    asyncio.run(run())
    assert (tmp_path / "file").read_text() == "before"


def test_a_link_is_replaced_and_its_file_left(sshd: Server, ssh_state: Path, tmp_path: Path) -> None:
    _, files = inside(sshd, ssh_state)
    (tmp_path / "other").write_text("other")
    (tmp_path / "link").symlink_to("other")
    asyncio.run(files.write(f"{tmp_path}/link", pieces(b"new"), mode=0o600))
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "other").read_text() == "other"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", "no such file"),
        ("folder", "no plain file"),
        ("fifo", "no plain file"),
        ("folder/", "absolute path"),
    ],
)
def test_what_is_no_file_is_not_read(
    sshd: Server, ssh_state: Path, tmp_path: Path, name: str, told: str
) -> None:
    _, files = inside(sshd, ssh_state)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OperationRejectedError, match=told):
        asyncio.run(read(files, f"{tmp_path}/{name}"))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/nowhere/file", "no such folder"),
        ("/proc/file", "may not write"),
        ("/usr", "is a folder"),
        ("a", "absolute"),
    ],
)
def test_what_cannot_be_written_is_told(sshd: Server, ssh_state: Path, path: str, told: str) -> None:
    _, files = inside(sshd, ssh_state)
    with pytest.raises(OperationRejectedError, match=told):
        asyncio.run(files.write(path, pieces(), mode=0o600))


def test_a_read_that_fails_is_told(sshd: Server, ssh_state: Path) -> None:
    _, files = inside(sshd, ssh_state)
    with pytest.raises(OperationRejectedError, match="can't be read"):
        asyncio.run(read(files, "/proc/self/mem"))
