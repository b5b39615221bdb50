"""Files in the guest, each transfer on a connection of its own, with which a part goes; implements `Files`."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import IO

from reflexarc.drivers.agent.client import Agent
from reflexarc.drivers.agent.conversation import TIMEOUT, Conversation
from reflexarc.drivers.agent.errors import valid
from reflexarc.errors import ConfigError, OperationRejectedError, PeerProtocolError
from reflexarc_wire.replies import ReadFileReply, WriteFileReply
from reflexarc_wire.requests import ReadFile, Request, WriteFile

PIECE = 256 << 10
IN_MEMORY = 8 << 20
"""Bytes of what is to be written that are kept in memory; more goes to a file without a name."""

DIGEST_RATE = 20 << 20
"""Bytes a second that the slowest guest digests."""


class AgentFiles:
    """Files through the agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._transfer(_read_request(path, 0), "files.read") as conversation:
            digest, offset, first = hashlib.sha256(), 0, None
            while True:
                piece = await self._piece(conversation, path, offset)
                first = piece.size if first is None else first
                digest.update(piece.data)
                offset += len(piece.data)
                if piece.data:
                    yield piece.data
                if piece.eof:
                    break
            await self._verify(conversation, path, offset, first, digest.hexdigest())

    async def write(self, path: str, pieces: AsyncIterator[bytes], *, mode: int) -> None:
        """The whole is taken in first: an agent is told the size and the digest, and nothing is sent of half a file."""
        with valid():
            checked = WriteFile(path, b"", 0, 0, mode)
        # Connected before the first piece is taken, so that another way can have them all where there is no agent.
        async with self._transfer(checked, "files.write") as conversation:
            with tempfile.SpooledTemporaryFile(IN_MEMORY) as kept:
                size, digest = await _gathered(pieces, kept)
                await self._send(conversation, path, kept, size, digest, mode)

    @asynccontextmanager
    async def _transfer(self, request: Request, operation: str) -> AsyncIterator[Conversation]:
        async with self._agent.conversation(request, operation) as (conversation, _):
            yield conversation

    async def _piece(self, conversation: Conversation, path: str, offset: int) -> ReadFileReply:
        reply = await conversation.ask(_read_request(path, offset), ReadFileReply, operation="files.read")
        if reply.offset != offset or len(reply.data) > PIECE or not (reply.data or reply.eof):
            raise self._wrong(f"its agent sent another part of {path} than it was asked for", "files.read")
        return reply

    async def _verify(
        self, conversation: Conversation, path: str, size: int, first: int, digest: str
    ) -> None:
        """Compare digests, where the file is what was read: one that is appended to, or made as it is read, isn't.

        first: what the file's size was said to be at the beginning; none that is made as it is read gets smaller.
        """
        told = await conversation.ask(
            ReadFile(path, size, 0, True),
            ReadFileReply,
            operation="files.read",
            timeout=TIMEOUT + size / DIGEST_RATE,
        )
        if told.size < first or (told.size == size and told.sha256 != digest):
            raise OperationRejectedError(
                f"{path} was changed while it was read; read it again",
                machine=self._agent.machine,
                operation="files.read",
                code="changed",
            )

    async def _send(
        self, conversation: Conversation, path: str, kept: IO[bytes], size: int, digest: str, mode: int
    ) -> None:
        offset = 0
        while True:
            data = await asyncio.to_thread(kept.read, PIECE)
            request = WriteFile(path, data, offset, size, mode, digest)
            offset += len(data)
            last = offset == size
            reply = await conversation.ask(
                request,
                WriteFileReply,
                operation="files.write",
                timeout=TIMEOUT + (size / DIGEST_RATE if last else 0),
            )
            if reply.offset != offset or reply.done is not last or (last and reply.sha256 != digest):
                raise self._wrong(f"its agent doesn't have {path} as it was sent; look at it", "files.write")
            if last:
                return

    def _wrong(self, problem: str, operation: str) -> PeerProtocolError:
        return PeerProtocolError(problem, machine=self._agent.machine, operation=operation)


async def _gathered(pieces: AsyncIterator[bytes], kept: IO[bytes]) -> tuple[int, str]:
    """Keep the pieces, and go to their beginning; returns how many bytes they are, and their digest."""
    digest, size = hashlib.sha256(), 0
    async for piece in pieces:
        digest.update(piece)
        size += len(piece)
        with _room():
            await asyncio.to_thread(kept.write, piece)
    with _room():
        await asyncio.to_thread(kept.seek, 0)
    return size, digest.hexdigest()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"what is to be written can't be kept in {tempfile.gettempdir()} until it is whole: {error.strerror}; "
            "make room there, or have TMPDIR name another folder; nothing of it was sent"
        ) from error


def _read_request(path: str, offset: int) -> ReadFile:
    with valid():
        return ReadFile(path, offset, PIECE)
