"""Records a real machine into a folder that can be replayed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from pathlib import Path

from reflexarc.drivers.replay.recording import NAME
from reflexarc.machine.capabilities import Console, Screen
from reflexarc.machine.frame import Frame

MAX_BYTES = 1 << 30
_TEXT_CHUNK = 1 << 16

_log = logging.getLogger("reflexarc.replay")


class Recorder:
    """Writes into a folder until it holds `max_bytes`; equal pictures are kept once, in one file."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.full = False
        self._folder = folder
        self._left = max_bytes
        self._begun = time.monotonic()
        self._names: dict[bytes, str] = {}
        self._shown: tuple[str, bool] | None = None
        (folder / NAME).write_bytes(b"")

    async def record(self, screen: Screen) -> None:
        """Write what the screen shows, from an iterator of its own, until cancelled or full.

        Encoding takes a while: of pictures in quick succession some are left out.
        """
        async for frame in screen.frames():
            await asyncio.to_thread(self._picture, frame)
            if self.full:
                return

    def console(self, console: Console) -> Console:
        """Return the console such that what is read from it is recorded."""
        return _RecordedConsole(self, console)

    def text(self, text: str) -> None:
        """Write a piece of the console's text."""
        at = time.monotonic() - self._begun
        for start in range(0, len(text), _TEXT_CHUNK):
            self._line({"at": round(at, 6), "serial": text[start : start + _TEXT_CHUNK]})

    def _picture(self, frame: Frame) -> None:
        name = self._name(frame)
        if name is not None and (name, frame.signal) != self._shown:
            self._shown = (name, frame.signal)
            at = max(0.0, frame.captured - self._begun)
            self._line({"at": round(at, 6), "frame": name, "signal": frame.signal})

    def _name(self, frame: Frame) -> str | None:
        """The file of the picture, written where it is new; None where it no longer fits."""
        digest = hashlib.sha256(repr(frame.pixels.shape).encode() + frame.pixels.tobytes()).digest()
        if digest not in self._names:
            png = frame.png()
            if not self._fits(len(png)):
                return None
            self._names[digest] = f"{len(self._names) + 1:06}.png"
            (self._folder / self._names[digest]).write_bytes(png)
        return self._names[digest]

    def _line(self, record: dict[str, object]) -> None:
        line = json.dumps(record).encode() + b"\n"
        if self._fits(len(line)):
            with open(self._folder / NAME, "ab") as file:
                file.write(line)

    def _fits(self, size: int) -> bool:
        if not self.full and size > self._left:
            self.full = True
            _log.warning("the recording in %s is full; nothing more is added", self._folder)
        if not self.full:
            self._left -= size
        return not self.full


class _RecordedConsole:
    def __init__(self, recorder: Recorder, console: Console) -> None:
        self._recorder = recorder
        self._console = console

    async def read(self) -> str:
        text = await self._console.read()
        self._recorder.text(text)
        return text

    async def write(self, data: str) -> None:
        await self._console.write(data)
