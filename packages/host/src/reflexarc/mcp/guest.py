"""The tools `exec` and `files`: inside the guest."""

from __future__ import annotations

import base64
import codecs
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError
from reflexarc.machine.capabilities import Command, Output, Stream
from reflexarc.mcp import veil
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.outputs import MAX_KEPT, Outputs, parts_of
from reflexarc.mcp.results import cleaned, fenced, result
from reflexarc.runs.commands import run_to_end

HEAD, TAIL = 6_000, 6_000
MARGIN = 64 << 10
"""Bytes before the end of an output that are kept to tell what begins there and is masked."""
MAX_FILE = 1 << 20
SHOWN = 200
PROGRESS = 0.25
"""Seconds between two messages of how a command goes on; one that writes fast has its newest lines told."""
Said = Callable[[str], Awaitable[None]]


@dataclass
class Kept:
    """What a stream brought: all that is kept of it, its end, and how much it was."""

    kept: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.kept += data[: MAX_KEPT - len(self.kept)]
        self.tail += data
        del self.tail[: max(0, len(self.tail) - TAIL - MARGIN)]

    @property
    def left_out(self) -> int:
        """Bytes between the beginning and the end that a result shows."""
        return max(0, self.size - HEAD - TAIL)

    @property
    def text(self) -> str:
        """Its beginning and its end."""
        if not self.left_out:
            return cleaned(self.kept.decode(errors="replace"))
        head = veil.masked_bytes(bytes(self.kept))[:HEAD].decode(errors="replace")
        return cleaned(f"{head}\n[... {self.left_out:,} bytes left out ...]\n{self.last(TAIL)}")

    def last(self, size: int) -> str:
        """Its newest bytes, masked before they are cut: half of a secret isn't recognised."""
        return veil.masked_bytes(bytes(self.tail))[-size:].decode(errors="replace")


async def execute(hub: Hub, machine: str, command: Command, said: Said, outputs: Outputs) -> CallToolResult:
    """Run a command in the guest and tell its output as it comes."""
    streams = {stream: Kept() for stream in Stream}
    told = 0.0

    async def take(piece: Output) -> None:
        nonlocal told
        streams[piece.stream].add(piece.data)
        if time.monotonic() - told >= PROGRESS:
            await said(fenced(streams[piece.stream].last(SHOWN)))
            told = time.monotonic()

    async with hub.acting(machine) as opened:
        status = await run_to_end(opened.session.machine, command, take)
    values: dict[str, object] = {"status": status, "text_is_untrusted": True}
    words = [f"It ended with status {status}."]
    for stream, output in streams.items():
        values[stream.value], values[f"{stream.value}_bytes"] = output.text, output.size
        if output.left_out:
            rest = f"reflexarc://outputs/{outputs.keep(bytes(output.kept))}/0"
            parts = parts_of(output.size)
            values[f"{stream.value}_rest"] = {"uri": rest, "parts": parts}
            words.append(f"All of {stream.value}: {rest}, the first of {parts} parts.")
    shown = [f"{stream.value}:\n{output.text}" for stream, output in streams.items() if output.size]
    return result("\n".join([*words, fenced("\n".join(shown))]).rstrip(), values)


async def read_file(hub: Hub, machine: str, path: str) -> CallToolResult:
    """Read a file of the guest, at most 1 MiB of it."""
    _checked(path)
    read, cut = bytearray(), False
    async with hub.acting(machine) as opened, aclosing(opened.session.files.read(path)) as pieces:
        async for piece in pieces:
            read += piece
            if len(read) > MAX_FILE:
                cut = True
                break
    data = veil.masked_bytes(bytes(read))[:MAX_FILE]
    values: dict[str, object] = {"path": path, "bytes": len(data), "cut": cut, "text_is_untrusted": True}
    encoded = base64.b64encode(data).decode("ascii")
    try:
        # What was cut may end within a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        values["base64"] = encoded
        return result(f"{path}: {len(data):,} bytes that are no text, in base64 in the values.", values)
    values["text"] = text
    note = " (cut)" if cut else ""
    if cleaned(text) != text:
        values["base64"] = encoded
        note += ", without its control characters; base64 in the values has them"
    return result(f"{path}: {len(data):,} bytes{note}.\n{fenced(text)}".rstrip(), values)


async def write_file(
    hub: Hub, machine: str, path: str, *, text: str | None, base64_data: str | None, executable: bool
) -> CallToolResult:
    """Write a file of the guest, whole or not at all."""
    _checked(path)
    if (text is None) == (base64_data is None):
        raise ConfigError("give either text or base64")
    try:
        data = text.encode() if text is not None else base64.b64decode(base64_data or "", validate=True)
    except ValueError as error:
        raise ConfigError(f"base64 is not base64: {error}") from error
    if len(data) > MAX_FILE:
        raise ConfigError(f"a file written at once has at most {MAX_FILE:,} bytes, not {len(data):,}")
    async with hub.acting(machine) as opened:
        await opened.session.files.write(path, _whole(data), mode=0o755 if executable else 0o644)
    return result(f"{path}: {len(data):,} bytes written.", {"path": path, "bytes": len(data)})


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 256 << 10):
        yield data[start : start + (256 << 10)]


def _checked(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise ConfigError("path is an absolute path in the guest, such as /etc/hostname")
