"""Files over SSH."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial

from reflexarc.drivers.ssh.client import SshClient, one_line
from reflexarc.drivers.ssh.process import Running
from reflexarc.drivers.ssh.script import read_script, trailer_of, write_script
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Stream

MAX_SAID = 4096


class SshFiles:
    """Reads and writes files through a shell; implements `Files`."""

    def __init__(self, client: SshClient) -> None:
        self._client = client

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        operation = "files.read"
        self._check(path, operation)
        said = b""
        async with self._client.running(partial(read_script, path), operation) as running:
            async with aclosing(running.outputs()) as outputs:
                async for output in outputs:
                    if output.stream is Stream.STDOUT:
                        yield output.data
                    else:
                        said = (said + output.data)[-MAX_SAID:]
            if running.status is None:
                raise self._client.lost(f"{path} was read", operation)
            if running.status:
                raise self._failed(f"{path} can't be read", said, operation)

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        operation = "files.write"
        self._check(path, operation)
        async with self._client.running(partial(write_script, path, mode), operation) as running:
            await _send(running, pieces)
            said = await _said(running)
            if running.status is None:
                raise self._client.lost(f"{path} was written", operation)
            if running.status:
                raise self._failed(f"{path} can't be written", said, operation)

    def _check(self, path: str, operation: str) -> None:
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise self._client.rejected(f"{path!r} is not the absolute path of a file", operation, "bad path")

    def _failed(self, problem: str, said: bytes, operation: str) -> OperationRejectedError:
        reason = one_line(said.decode(errors="replace"))
        return self._client.rejected(
            f"{problem}: {reason or 'the guest gave no reason'}", operation, "failed", reason
        )


async def _send(running: Running, pieces: AsyncIterator[bytes]) -> None:
    """Send a file's content and what ends it, or as much as the guest takes."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if not await running.send(piece):
            break
    else:
        await running.send(trailer_of(size, running.token))
    running.close_input()


async def _said(running: Running) -> bytes:
    """What the guest complains of."""
    said = b""
    async with aclosing(running.outputs()) as outputs:
        async for output in outputs:
            if output.stream is Stream.STDERR:
                said = (said + output.data)[-MAX_SAID:]
    return said
