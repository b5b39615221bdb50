"""One script in the guest, and the `ssh` that carries it."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reflexarc.machine.capabilities import Output, Stream

CHUNK = 1 << 16
MAX_NOISE = 1 << 16
FAILURE_TIMEOUT = 2.0
_END_DIGITS = 3


@dataclass(frozen=True)
class Refused:
    """What a script said in place of being ready."""

    code: str
    detail: str


class Marked:
    """One output up to the line with which the script ends it; what other processes write after that is left."""

    def __init__(self, reader: asyncio.StreamReader, token: str) -> None:
        self._reader = reader
        self._mark = f"{token} ".encode()
        self._kept = b""
        self.status: int | None = None
        self.ended = False

    async def word(self) -> str | None:
        """Skip what a login shell says first and return what stands after the token; None at the end.

        Raises ValueError where that is more than 64 KiB.
        """
        while b"\n" not in self._kept.partition(self._mark)[2]:
            data = await self._reader.read(CHUNK)
            if not data:
                return None
            self._kept += data
            if len(self._kept) > MAX_NOISE:
                raise ValueError("more than 64 KiB before its first word")
        line, _, self._kept = self._kept.partition(self._mark)[2].partition(b"\n")
        return line.decode(errors="replace")

    async def rest(self) -> bytes:
        """All that comes, up to 64 KiB, without a look for marks."""
        while len(self._kept) < MAX_NOISE and (data := await self._reader.read(CHUNK)):
            self._kept += data
        return self._kept[:MAX_NOISE]

    async def read(self) -> bytes:
        """A piece of the output, empty once it has ended; `status` tells then whether the script ended it."""
        while True:
            found = self._take()
            if found or self.ended:
                return found
            data = await self._reader.read(CHUNK)
            if not data:
                self.ended = True
                found, self._kept = self._kept, b""
                return found
            self._kept += data

    def _take(self) -> bytes:
        """What surely is the command's; the rest could be the beginning of the mark."""
        at = self._kept.find(self._mark)
        if at >= 0:
            line, newline, _ = self._kept[at + len(self._mark) :].partition(b"\n")
            if newline or len(line) > len("end ") + _END_DIGITS:
                self.ended, self.status = True, _status(line)
                self._kept = self._kept[:at]
                at = len(self._kept)
        else:
            at = _clear_of(self._kept, self._mark)
        found, self._kept = self._kept[:at], self._kept[at:]
        return found


def _clear_of(data: bytes, mark: bytes) -> int:
    """Where the longest end of the data begins that the mark begins with."""
    for start in range(max(0, len(data) - len(mark) + 1), len(data)):
        if mark.startswith(data[start:]):
            return start
    return len(data)


def _status(line: bytes) -> int | None:
    word, _, number = line.partition(b" ")
    return int(number) if word == b"end" and number.isdigit() and len(number) <= _END_DIGITS else None


class Running:
    """A script that a guest's shell has been given."""

    def __init__(self, transport: asyncio.SubprocessTransport, process: Process, token: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.token = token
        self._transport = transport
        self._process = process
        self._input = process.stdin
        self._outputs = {
            Stream.STDOUT: Marked(process.stdout, token),
            Stream.STDERR: Marked(process.stderr, token),
        }

    @classmethod
    async def start(cls, arguments: Sequence[str], script: str, token: str, *, folder: Path) -> Running:
        """Start `ssh` in a folder and give it the script; raises OSError where there is no ssh."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=CHUNK, loop=loop),
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            start_new_session=True,
        )
        running = cls(transport, Process(transport, protocol, loop), token)
        running.tell(script.encode(errors="surrogateescape"))
        return running

    async def ready(self) -> Refused | None:
        """Wait until the script is ready, or has refused; raises EOFError where ssh ends before, ValueError."""
        word = await self._outputs[Stream.STDOUT].word()
        if word is None:
            raise EOFError
        if word != "ready":
            code, _, detail = word.removeprefix("refused ").partition(" ")
            return Refused(code, detail)
        if await self._outputs[Stream.STDERR].word() is None:
            raise EOFError
        return None

    def tell(self, data: bytes) -> None:
        """Write to the script's input, however much waits to be sent; a broken connection shows at the outputs."""
        with suppress(OSError, RuntimeError):
            self._input.write(data)

    async def send(self, data: bytes) -> bool:
        """Write to the input at the pace of the guest; False where it takes nothing any more."""
        try:
            self._input.write(data)
            await self._input.drain()
        except (OSError, RuntimeError):
            return False
        return True

    def close_input(self) -> None:
        """End the script's input."""
        with suppress(OSError, RuntimeError):
            self._input.close()

    @property
    def status(self) -> int | None:
        """The exit status, None where it isn't told."""
        return self._outputs[Stream.STDOUT].status

    async def outputs(self) -> AsyncGenerator[Output, None]:
        """Yield what both outputs bring, until the script has ended both or the connection has."""
        reading = {asyncio.ensure_future(marked.read()): stream for stream, marked in self._outputs.items()}
        try:
            while reading:
                done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    stream = reading.pop(task)
                    data = task.result()
                    if data:
                        yield Output(stream, data)
                        reading[asyncio.ensure_future(self._outputs[stream].read())] = stream
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def drained(self) -> None:
        """Read both outputs to their ends and drop what they bring."""
        async for _ in self.outputs():
            pass

    async def message(self) -> str:
        """What ssh said of its failure, up to 64 KiB."""
        return (await self._outputs[Stream.STDERR].rest()).decode(errors="replace")

    async def failure(self) -> tuple[int | None, str]:
        """The exit code of an ssh that ends by itself, None where it doesn't, and what it said, up to 64 KiB."""
        said = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAILURE_TIMEOUT):
                said = await self._outputs[Stream.STDERR].rest()
                await self._process.wait()
        return self._process.returncode, said.decode(errors="replace")

    def give_up(self) -> None:
        """End ssh at once; the outputs end with it."""
        if self._process.returncode is None:
            # Not through asyncio, which would reap it behind the back of what waits for it.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        for fd in range(3):
            # The master has them open, too, and may be waiting for a network that is gone.
            pipe = self._transport.get_pipe_transport(fd)
            if pipe is not None:
                pipe.close()

    async def end(self) -> None:
        """End ssh where it still runs."""
        self.give_up()
        await self._process.wait()
        self._transport.close()
