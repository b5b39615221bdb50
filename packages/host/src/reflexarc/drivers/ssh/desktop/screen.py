"""A guest's desktop as screen, keyboard and pointer."""

from __future__ import annotations

import asyncio
import io
import struct
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

import numpy as np

from reflexarc.drivers.ssh.client import SshClient, one_line
from reflexarc.drivers.ssh.desktop import linux, macos
from reflexarc.drivers.ssh.desktop.probe import PATH, PROBE, Desktop, System, desktop_of
from reflexarc.drivers.ssh.shell import SshShell
from reflexarc.errors import (
    CapabilityError,
    ConnectError,
    ConnectionLostError,
    OperationRejectedError,
    PeerProtocolError,
)
from reflexarc.machine.capabilities import Button, Command, Exited, KeyEvent, Stream
from reflexarc.machine.frame import MAX_PIXELS, Frame, Pixels, pixels_of

MAX_PNG = 300_000_000
MAX_PROBE = 1 << 20
TIMEOUT = 30.0
# Between two looks: at least as long as one took, longer while nothing moves or nobody is there.
SOONEST, LATEST = 0.2, 3.0
DOTS_PER_POINT = 72

_PNG = b"\x89PNG\r\n\x1a\n"


class Desk:
    """Runs programs in the guest's desktop session, which is looked for again once one fails."""

    def __init__(self, client: SshClient) -> None:
        self._client = client
        self._shell = SshShell(client)
        self._found: Desktop | None = None

    @property
    def machine(self) -> str:
        return self._client.machine

    async def found(self, operation: str) -> Desktop:
        """The desktop; raises ConnectError where there is none yet."""
        if self._found is None:
            said = await self._output(PROBE, {}, MAX_PROBE, operation)
            self._found = desktop_of(said.decode(errors="replace"), self._client.config.display)
        if self._found is None:
            raise ConnectError(
                f"nobody's desktop is to be found on {self._client.config.name}; is anybody logged in there, and may "
                "the account see it?",
                machine=self.machine,
                operation=operation,
            )
        return self._found

    async def run(self, line: Callable[[Desktop], str], operation: str, limit: int = 1 << 16) -> bytes:
        """Run the command line that is made for the desktop, and return its output.

        Raises CapabilityError where there can't be one, OperationRejectedError where it fails.
        """
        desktop = await self.found(operation)
        try:
            made = line(desktop)
        except ValueError as error:
            self._found = None  # it may be installed by the next time
            raise CapabilityError(str(error), machine=self.machine, operation=operation) from error
        try:
            return await self._output(f"{PATH}; {made}", dict(desktop.env), limit, operation)
        except OperationRejectedError:
            self._found = None
            raise

    async def _output(self, line: str, env: dict[str, str], limit: int, operation: str) -> bytes:
        command = Command(argv=("/bin/sh", "-c", line), env=env, timeout=TIMEOUT)
        out, err, status = bytearray(), bytearray(), 0
        async with aclosing(self._shell.run(command)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Exited):
                    status = piece.status
                elif piece.stream is Stream.STDOUT:
                    out += piece.data
                else:
                    err = (err + piece.data)[-4096:]
                if len(out) > limit:
                    raise self.broken(f"more than {limit} bytes came", operation)
        if status:
            said = one_line(err.decode(errors="replace")) or "it gave no reason"
            raise OperationRejectedError(
                f"its desktop can't be reached over SSH (status {status}): {said}",
                machine=self.machine,
                operation=operation,
                code=str(status),
                detail=said,
            )
        return bytes(out)

    def broken(self, problem: str, operation: str, raw: bytes = b"") -> PeerProtocolError:
        return PeerProtocolError(
            f"its picture can't be used: {problem}", machine=self.machine, operation=operation, raw=raw
        )


class SshScreen:
    """Pictures that a program in the guest takes; implements `Screen`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._number = 0

    async def screenshot(self) -> Frame:
        return (await self.taken())[0]

    async def taken(self) -> tuple[Frame, float]:
        """A frame, and how many of its pixels a point of the desktop has."""
        operation = "screenshot"
        # What it shows may be as old as that.
        began = time.monotonic()
        data = await self._desk.run(_capture, operation, MAX_PNG)
        try:
            pixels, scale = await asyncio.to_thread(decoded, data)
        except ValueError as error:
            raise self._desk.broken(str(error), operation, data) from error
        self._number += 1
        return Frame(pixels, began, self._number), scale

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames, polled; while the guest or its desktop is away there are none."""
        last: Pixels | None = None
        pause = SOONEST
        while True:
            began = time.monotonic()
            try:
                frame = await self.screenshot()
            except (ConnectError, ConnectionLostError, OperationRejectedError):
                pause = LATEST
            else:
                changed = last is None or not np.array_equal(last, frame.pixels)
                if changed:
                    last = frame.pixels
                    yield frame
                pause = SOONEST if changed else min(pause * 1.5, LATEST)
            await asyncio.sleep(max(pause, time.monotonic() - began))

    def source(self) -> str:
        return "a program of the guest, over SSH, polled"


class SshKeyboard:
    """Keys that a program in the guest moves; implements `Keyboard`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def send(self, events: Sequence[KeyEvent]) -> None:
        if events:
            await self._desk.run(lambda desktop: _lines(desktop).keys(desktop, events), "keyboard.press")


class SshPointer:
    """A pointer that a program in the guest moves; implements `Pointer`."""

    def __init__(self, desk: Desk, screen: SshScreen) -> None:
        self._desk = desk
        self._screen = screen

    async def move(self, x: int, y: int) -> None:
        operation = "pointer.move"
        if (await self._desk.found(operation)).system is System.MACOS:
            frame, scale = await self._screen.taken()
            if not (0 <= x < frame.width and 0 <= y < frame.height):
                raise self._outside(x, y)
            await self._desk.run(lambda desktop: macos.move(desktop, x / scale, y / scale), operation)
            return
        try:
            await self._desk.run(lambda desktop: linux.move(desktop, x, y), operation)
        except OperationRejectedError as error:
            raise self._outside(x, y) if error.code == str(linux.OUTSIDE) else error from None

    async def button(self, button: Button, down: bool) -> None:
        await self._desk.run(
            lambda desktop: _lines(desktop).button(desktop, button, down=down), "pointer.click"
        )

    async def scroll(self, dx: int, dy: int) -> None:
        await self._desk.run(lambda desktop: _lines(desktop).scroll(desktop, dx, dy), "pointer.scroll")

    def _outside(self, x: int, y: int) -> OperationRejectedError:
        return OperationRejectedError(
            f"({x}, {y}) is not on its screen; look where to point",
            machine=self._desk.machine,
            operation="pointer.move",
            code="outside",
        )


class Lines(Protocol):
    """Makes command lines for a kind of desktop; ValueError says what can't be done, and what to do."""

    def capture(self, desktop: Desktop) -> str: ...

    def keys(self, desktop: Desktop, events: Sequence[KeyEvent]) -> str: ...

    def button(self, desktop: Desktop, pressed: Button, *, down: bool) -> str: ...

    def scroll(self, desktop: Desktop, dx: int, dy: int) -> str: ...


def _lines(desktop: Desktop) -> Lines:
    return macos if desktop.system is System.MACOS else linux


def _capture(desktop: Desktop) -> str:
    return _lines(desktop).capture(desktop)


def decoded(data: bytes) -> tuple[Pixels, float]:
    """The pixels of a PNG and how many of them it says a point has, 1 where it says nothing.

    Raises ValueError for anything else, and for more than 64 megapixels. Source: PNG, IHDR and pHYs.
    """
    from PIL import Image

    if data[:8] != _PNG or len(data) < 24:
        raise ValueError("it is no PNG")
    width, height = struct.unpack(">II", data[16:24])
    if not 0 < width * height <= MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels are no screen")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            dots = image.info.get("dpi", (DOTS_PER_POINT,))[0]
            pixels = pixels_of(image)
    except (OSError, SyntaxError, ValueError, struct.error, zlib.error) as error:
        raise ValueError(f"it is broken: {error}") from error
    return pixels, max(1.0, round(dots / DOTS_PER_POINT))
