from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents import Agent, Host, running

from reflexarc_wire.replies import ReadFileReply, WriteFileReply
from reflexarc_wire.requests import ReadFile, WriteFile

CHUNK = 500_000


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("agent") / "agent.sock") as agent:
        yield agent


@pytest.fixture
def host(agent: Agent) -> Iterator[Host]:
    with agent.host() as host:
        yield host


def write(
    host: Host, path: Path, data: bytes, *, mode: int | None = None, sha256: str | None = None
) -> object:
    """Write in chunks, and return the last reply."""
    reply: object = None
    for start in range(0, len(data), CHUNK) or [0]:
        piece = data[start : start + CHUNK]
        reply = host.ask(WriteFile(str(path), piece, start, len(data), mode, sha256))
    return reply


def read(host: Host, path: Path, size: int | None = None) -> bytes:
    data = b""
    while True:
        reply = host.ask(ReadFile(str(path), len(data), size))
        assert isinstance(reply, ReadFileReply), reply
        assert reply.offset == len(data)
        data += reply.data
        if reply.eof:
            return data


@pytest.mark.parametrize("size", [0, 1, CHUNK, 3 * CHUNK + 7])
def test_a_file_comes_back_as_it_was_written(host: Host, tmp_path: Path, size: int) -> None:
    data, path = random.Random(size).randbytes(size), tmp_path / "a file ü"
    digest = hashlib.sha256(data).hexdigest()
    assert write(host, path, data, sha256=digest) == WriteFileReply(size, True, digest)
    assert path.read_bytes() == data
    assert read(host, path) == data
    if size:
        assert read(host, path, size) == data
    whole = host.ask(ReadFile(str(path), size=0, sha256=True))
    assert whole == ReadFileReply(b"", 0, size, 0o644, size == 0, digest)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_old_file_is_there_until_the_new_one_is_whole(agent: Agent, host: Host, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"old")
    assert host.ask(WriteFile(str(path), b"ne", 0, 3)) == WriteFileReply(2, False)
    assert path.read_bytes() == b"old"
    reply = host.ask(WriteFile(str(path), b"w", 2, 3))
    assert isinstance(reply, WriteFileReply)
    assert reply.done
    assert path.read_bytes() == b"new"


def test_an_unfinished_file_goes_with_its_connection(agent: Agent, tmp_path: Path) -> None:
    with agent.host() as host:
        host.ask(WriteFile(str(tmp_path / "half"), b"ab", 0, 100))
        assert len(list(tmp_path.iterdir())) == 1
    assert agent.until(lambda: list(tmp_path.iterdir()) == [])


def test_a_mode_is_set_or_kept_and_links_are_followed(host: Host, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    write(host, link, b"1", mode=0o4750)
    assert (link.is_symlink(), stat.S_IMODE(real.stat().st_mode)) == (True, 0o4750)
    real.chmod(0o600)
    write(host, link, b"2")
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (b"2", 0o600)


def test_a_replaced_file_keeps_its_owner(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "owned"
    path.write_bytes(b"1")
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(path, owner, -1)
    write(host, path, b"2")
    assert (path.read_bytes(), path.stat().st_uid) == (b"2", owner)


def test_content_that_is_not_what_was_promised_replaces_nothing(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    failure = host.refused(WriteFile(str(path), b"new", 0, 3, sha256="0" * 64))
    assert failure.code == "bad_request"
    assert "nothing was replaced" in failure.error
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("kept", b"old")]


@pytest.mark.parametrize("offset", [1, 3])
def test_a_chunk_out_of_order_is_refused_and_the_right_one_still_taken(
    host: Host, tmp_path: Path, offset: int
) -> None:
    path = str(tmp_path / "f")
    assert "at 0, not" in host.refused(WriteFile(path, b"x", offset, 9)).error
    host.ask(WriteFile(path, b"ab", 0, 4))
    assert "at 2, not" in host.refused(WriteFile(path, b"x", offset, 9)).error
    reply = host.ask(WriteFile(path, b"cd", 2, 4))
    assert isinstance(reply, WriteFileReply)
    assert reply.done


def test_too_many_unfinished_files_are_refused(host: Host, tmp_path: Path) -> None:
    for number in range(16):
        host.ask(WriteFile(str(tmp_path / str(number)), b"x", 0, 2))
    assert host.refused(WriteFile(str(tmp_path / "one more"), b"x", 0, 2)).code == "busy"


def test_only_regular_files_are_read_and_none_makes_the_agent_wait(host: Host, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (str(fifo), "/dev/zero", str(tmp_path)):
        failure = host.refused(ReadFile(path))
        assert (failure.code, failure.error) == ("os_error", f"{path}: not a regular file")
    failure = host.refused(ReadFile("/no/such/file"))
    assert (failure.code, failure.detail) == ("os_error", "ENOENT")
    assert host.refused(WriteFile(str(tmp_path / "no" / "folder"), b"x", 0, 1)).detail == "ENOENT"
    assert "not a regular" in host.refused(WriteFile(str(fifo), b"x", 0, 1)).error
    assert list(tmp_path.iterdir()) == [fifo]


def test_files_whose_size_nobody_knows_are_read_whole(host: Host) -> None:
    assert read(host, Path("/proc/self/status"), 100).startswith(b"Name:\tpython")
