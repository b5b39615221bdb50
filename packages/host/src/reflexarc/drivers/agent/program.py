"""A program of this host whose input and output lead to the agent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from reflexarc.drivers.agent.streams import CHUNK, UnreachableError

MAX_WORDS = 4096
EXIT_TIMEOUT = 2.0


class Program:
    """The standard input and output of a program, as of `ssh HOST reflexarc-agent --stdio`."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.name = f"stdio:{command[0]}"
        self._command = command

    async def connect(self) -> ProgramStream:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, limit=CHUNK, start_new_session=True
        )
        return ProgramStream(process)

    async def close(self) -> None:
        """Nothing is kept."""


class ProgramStream:
    """The pipes of a running program, which ends with its stream."""

    shared = False

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout
        self._heard = False
        self._words = b""
        self._listening = asyncio.create_task(self._listen(process.stderr))

    async def read(self) -> bytes:
        data = await self._output.read(CHUNK)
        if not data and not self._heard:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._listening), EXIT_TIMEOUT)
            words = self._words.decode("utf-8", "replace").strip().splitlines()
            raise UnreachableError(
                f"the program ended without a word of an agent: {words[-1] if words else ''}"
            )
        self._heard = True
        return data

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()

    async def close(self) -> None:
        self._input.close()
        self._listening.cancel()
        # The agent ends when its input does; ssh, too, unless it waits for something.
        try:
            async with asyncio.timeout(EXIT_TIMEOUT):
                # A pipe that nobody reads any more would hold it up.
                while await self._output.read(CHUNK):
                    pass
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        """Keep the last that the program says beside the stream."""
        while data := await errors.read(MAX_WORDS):
            self._words = (self._words + data)[-MAX_WORDS:]
