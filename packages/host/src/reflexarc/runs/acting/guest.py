"""Inside the guest: commands, files and applications."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from reflexarc.errors import OperationTimeoutError
from reflexarc.machine.capabilities import Command, Output, Stream
from reflexarc.runs.acting.act import Act, Performed
from reflexarc.runs.acting.reaching import reached
from reflexarc.runs.commands import run_to_end
from reflexarc.runs.copying import fetch, pieces

MAX_OUTPUT = 64 << 10
SHOWN = 500
# What the guest gets beyond a command's own time limit, before it is given up.
GRACE = 10.0


async def launch_app(act: Act) -> Performed:
    """Start an application."""
    name = act.text("name")
    await reached(act, lambda: act.machine.apps.launch(name))
    return Performed()


async def execute(act: Act) -> Performed:
    """Run a command and keep what it writes, up to 64 KiB of each stream."""
    limit = act.seconds("timeout")
    command = Command(
        line=act.text("command"),
        argv=act.texts("argv"),
        cwd=act.text("cwd") or None,
        env=act.mapping("env"),
        timeout=limit,
    )
    kept = {stream: _Kept() for stream in Stream}

    async def take(piece: Output) -> None:
        kept[piece.stream].add(piece.data)

    async def run() -> int:
        async with _within(act, "the command", limit + GRACE):
            return await run_to_end(act.machine, command, take)

    status = await reached(act, run)
    out, err = kept[Stream.STDOUT], kept[Stream.STDERR]
    return ended(
        act, status, {"stdout": out.text, "stderr": err.text}, truncated=out.truncated or err.truncated
    )


def ended(act: Act, status: int, said: dict[str, str], *, truncated: bool) -> Performed:
    """What became of a command: delivered where its exit status is among `ok_codes`."""
    result: dict[str, object] = {"status": status, **said, **({"truncated": True} if truncated else {})}
    codes = cast("Collection[int]", act.args.get("ok_codes") or (0,))
    if status in codes:
        return Performed(result=result)
    last = (said.get("stderr") or said["stdout"]).strip()[-SHOWN:]
    wanted = " or ".join(map(str, codes))
    return Performed("failed", f"it ended with status {status}, not {wanted}{': ' if last else ''}{last}")


async def upload(act: Act) -> Performed:
    """Copy a file of this host to the guest."""
    mode = 0o755 if act.args.get("executable") else 0o644
    target = act.text("target")
    with act.host.open_source(act.text("source"), typed=act.typed("source")) as file:
        size = os.fstat(file.fileno()).st_size

        async def write() -> None:
            async with _within(act, "the upload", act.seconds("timeout")):
                await act.machine.files.write(target, pieces(file), mode=mode)

        await reached(act, write)
    return Performed(result={"path": target, "size": size})


async def download(act: Act) -> Performed:
    """Copy a file of the guest to this host, whole or not at all."""
    source = act.text("source")
    target = act.host.target(act.text("target"), typed=act.typed("target"))

    async def read() -> int:
        async with _within(act, "the download", act.seconds("timeout")):
            return await fetch(act.machine, source, target)

    size = await reached(act, read)
    return Performed(result={"path": str(target), "size": size})


@asynccontextmanager
async def _within(act: Act, what: str, seconds: float) -> AsyncIterator[None]:
    """Give something so many seconds; raises OperationTimeoutError where it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise OperationTimeoutError(
            f"{what} did not end within {seconds:g} s; look what became of it, or give it a longer `timeout`",
            machine=act.machine.name,
            operation=act.state.step.operation or "",
        ) from error


@dataclass
class _Kept:
    """The beginning of what a stream brought."""

    data: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def add(self, data: bytes) -> None:
        room = MAX_OUTPUT - len(self.data)
        self.data += data[:room]
        self.truncated = self.truncated or len(data) > room

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")
