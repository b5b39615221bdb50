"""What all peers share: the guest's answers with their times, a VM, and a watching process told when to wait."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.reflex.guest import MEMORY_MIB, StimulusGuest

START_TIMEOUT = 90.0
TRIAL_TIMEOUT = 60.0


class PeerAbsentError(Exception):
    """A peer that can't take part; the text says why."""


@dataclass(frozen=True)
class Reaction:
    """One trial: seconds from the drawn menu to Enter in the guest, None where none came; keys that should not
    have come; seconds to the key leaving the watching program, None where it doesn't say.
    """

    seconds: float | None
    wrong: int
    shown: float
    sent: float | None = None


class Wait(Protocol):
    """Makes the peer wait for the next menu; returns when it has been told to."""

    async def __call__(self) -> None: ...


class Peer(Protocol):
    """One that watches a screen and presses Enter."""

    name: str

    def version(self) -> str:
        """Its version; raises PeerAbsentError where it is not installed."""
        ...

    def watch(self, guest: StimulusGuest, folder: Path) -> AbstractAsyncContextManager[Wait]:
        """Start a VM of its own with the guest in an empty folder, and the peer that watches it."""
        ...


class Stimulus:
    """The second serial port of a running guest."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, delays: bool) -> None:
        self._reader = reader
        self._writer = writer
        self._delays = delays

    @classmethod
    async def connect(cls, path: Path, *, delays: bool = True) -> Stimulus:
        """Connect as soon as QEMU listens, and return when the guest is ready; `delays`: whether it can wait."""
        async with asyncio.timeout(START_TIMEOUT):
            stimulus = cls(*await listening(path), delays=delays)
            while await stimulus._reader.readexactly(1) != b"R":
                pass
        return stimulus

    async def trial(self, delay: float, at_menu: Callable[[], Awaitable[None]] | None = None) -> Reaction:
        """Have the menu shown after `delay` seconds and return how it was answered."""
        wrong = 0
        shown = float("nan")
        reaction = Reaction(None, wrong, shown)
        if self._delays:
            self._writer.write(b"%.3f\n" % delay)
        else:
            await asyncio.sleep(delay)
            self._writer.write(b"G")
        async with asyncio.timeout(TRIAL_TIMEOUT):
            while True:
                word = await self._reader.readexactly(1)
                now = time.perf_counter()
                if word == b"M":
                    shown = now
                    if at_menu:
                        await at_menu()
                elif word == b"K":
                    reaction = Reaction(now - shown, wrong, shown)
                elif word == b"T":
                    reaction = Reaction(None, wrong, shown)
                elif word == b"D":
                    return reaction
                else:
                    wrong += 1

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def process(
    arguments: Sequence[str], folder: Path, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program in `folder`, its errors in `folder`/log; it and its children end with the context."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        started = await asyncio.create_subprocess_exec(
            *arguments,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    try:
        yield started
    finally:
        await _end(started)


async def _end(started: asyncio.subprocess.Process) -> None:
    """End a program and its children; SIGINT first, on which one of ours ends what it has started."""
    assert started.stdin is not None
    started.stdin.close()
    for number, patience in ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(started.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await started.wait()


@asynccontextmanager
async def vm(guest: StimulusGuest, folder: Path, *display: str) -> AsyncIterator[Path]:
    """Run a VM under emulation with that display; yield the path of its QMP socket."""
    monitor = folder / "qmp"
    arguments = [
        str(guest.qemu(folder)), "-nodefaults", "-accel", "tcg", "-m", str(MEMORY_MIB), "-vga", "std",
        *display, "-serial", "null", "-qmp", f"unix:{monitor},server=on,wait=off",
    ]  # fmt: skip
    async with process(arguments, folder):
        yield monitor


async def listening(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket of QEMU's as soon as it is there."""
    async with asyncio.timeout(START_TIMEOUT):
        while True:
            try:
                return await asyncio.open_unix_connection(path)
            except OSError:
                await asyncio.sleep(0.02)


def last_words(folder: Path) -> str:
    """The last line that programs started in the folder have put out."""
    lines = (folder / "log").read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing")[:200]


def installed(environment: Path, package: str) -> str:
    """The version of a package in a virtual environment; raises PeerAbsentError where it is not there."""
    for found in environment.glob(f"lib/*/site-packages/{package}-*.dist-info"):
        return found.name.removeprefix(f"{package}-").removesuffix(".dist-info")
    raise PeerAbsentError(f"{package} is not in {environment.name}; run benchmarks/reflex/install")


class Told:
    """A watching program that reads `wait` lines and answers each with `waiting` once it does.

    pressed: the moments, by this host's monotonic clock, at which it says that it sent its key.
    """

    def __init__(self, program: asyncio.subprocess.Process, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.pressed: list[float] = []

    async def __call__(self) -> None:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(b"wait\n")
        async with asyncio.timeout(START_TIMEOUT):
            while (line := await self._program.stdout.readline()) != b"waiting\n":
                if line.startswith(b"pressed "):
                    self.pressed.append(float(line.split()[1]))
                if not line:
                    raise PeerAbsentError(f"its watching process has ended: {last_words(self._folder)}")


def free_display() -> int:
    """The number of a VNC display on loopback that nobody has."""
    for number in range(70, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", 5900 + number))
            return number
    raise PeerAbsentError("there is no free VNC display")


async def execute(monitor: Path, command: str, **arguments: object) -> None:
    """Run one QMP command over a connection of its own."""
    reader, writer = await listening(monitor)
    try:
        await reader.readline()
        for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
            writer.write(json.dumps(request).encode() + b"\n")
            while "event" in (answer := json.loads(await reader.readline())):
                pass
            assert "return" in answer, answer
    finally:
        writer.close()
