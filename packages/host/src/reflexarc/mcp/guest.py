"""The tools `exec` and `files`: inside the guest."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError
from reflexarc.machine.capabilities import Command, Exited, Stream
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.results import fenced, result

HEAD, TAIL = 8_000, 8_000
MAX_KEPT = 4 << 20
MAX_TIMEOUT = 3_600.0
MAX_FILE = 1 << 20
Said = Callable[[str], Awaitable[None]]


@dataclass
class Output:
    """What a stream brought: its beginning and its end, and how much it was."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = HEAD - len(self.head)
        self.head += data[:room]
        self.tail += data[max(0, room) :]
        del self.tail[: max(0, len(self.tail) - TAIL)]

    @property
    def text(self) -> str:
        left_out = self.size - len(self.head) - len(self.tail)
        gap = f"\n[... {left_out:,} bytes left out ...]\n" if left_out else ""
        return self.head.decode(errors="replace") + gap + self.tail.decode(errors="replace")


async def execute(
    hub: Hub,
    machine: str,
    command: str,
    *,
    timeout: float,
    cwd: str | None,
    env: Mapping[str, str] | None,
    said: Said,
) -> CallToolResult:
    """Run a command in the guest and tell its output as it comes."""
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"timeout is above 0 and at most {MAX_TIMEOUT:g} seconds")
    streams = {stream: Output() for stream in Stream}
    status = None
    asked = Command(line=command, cwd=cwd, env=dict(env or {}), timeout=timeout)
    async with hub.acting(machine) as opened, aclosing(opened.session.shell.run(asked)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Exited):
                status = piece.status
                break
            streams[piece.stream].add(piece.data)
            await said(piece.data[-200:].decode(errors="replace"))
    out, err = streams[Stream.STDOUT], streams[Stream.STDERR]
    values: dict[str, object] = {
        "status": status, "stdout": out.text, "stderr": err.text,
        "stdout_bytes": out.size, "stderr_bytes": err.size, "text_is_untrusted": True,
    }  # fmt: skip
    shown = "\n".join(filter(None, (out.text, err.text and f"stderr:\n{err.text}")))
    return result(f"It ended with status {status}.\n{fenced(shown)}".rstrip(), values)


async def read_file(hub: Hub, machine: str, path: str) -> CallToolResult:
    """Read a file of the guest, at most 1 MiB of it."""
    data, cut = bytearray(), False
    async with hub.acting(machine) as opened, aclosing(opened.session.files.read(path)) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > MAX_FILE:
                cut = True
                del data[MAX_FILE:]
                break
    values: dict[str, object] = {"path": path, "bytes": len(data), "cut": cut, "text_is_untrusted": True}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        values["base64"] = base64.b64encode(data).decode("ascii")
        return result(f"{path}: {len(data):,} bytes that are no text, in base64 in the values.", values)
    values["text"] = text
    note = " (cut)" if cut else ""
    return result(f"{path}: {len(data):,} bytes{note}.\n{fenced(text)}", values)


async def write_file(
    hub: Hub, machine: str, path: str, *, text: str | None, base64_data: str | None, executable: bool
) -> CallToolResult:
    """Write a file of the guest, whole or not at all."""
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
