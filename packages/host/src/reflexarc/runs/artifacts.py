"""What a run leaves beside the journal, in a folder of its own: frames, and what its serial console said."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc.errors import JournalError
from reflexarc.plainfiles import read_plain

if TYPE_CHECKING:
    from reflexarc.machine.frame import Frame

SERIAL_LOG = "serial.txt"
MAX_SERIAL = 1_000_000


MAX_PICTURE = 8 << 20

# What a person may want to open, by what it is.
KEPT = {"video": "video.webp", "serial log": SERIAL_LOG}


def kept(folder: Path) -> dict[str, Path]:
    """The files in a run's folder that a person may want to open, by what they are; empty ones are left out."""
    found = {}
    for what, name in KEPT.items():
        path = folder.absolute() / name
        with suppress(OSError):
            if path.stat().st_size:
                found[what] = path
    return found


def picture(folder: Path, name: str) -> bytes | None:
    """A picture of that name in a run's folder; None where there is none, it is a link, or it is too large."""
    path = folder / name
    if "\0" in name or path.name != name or path.suffix != ".png" or path.is_symlink():
        return None
    with suppress(OSError):
        data = read_plain(path, MAX_PICTURE)
        return data if len(data) <= MAX_PICTURE else None
    return None


class RunFolder:
    """The folder of one run, made private to the user."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.path = root / run_id
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalError(f"can't make the run's folder: {error.strerror}", path=self.path) from error

    @property
    def lock(self) -> Path:
        """File whose lock the process that drives the run holds."""
        return self.path / "lock"

    def store(self, frame: Frame) -> str:
        """Write a frame as PNG and return its name in the folder; raises JournalError when it can't."""
        target = self.path / f"frame-{fingerprint(frame)}.png"
        try:
            target.write_bytes(frame.png())
        except OSError as error:
            raise JournalError(f"can't store a frame: {error.strerror}", path=target) from error
        return target.name


def fingerprint(frame: Frame) -> str:
    """A name for a frame's content: equal for equal pixels."""
    import numpy as np

    digest = hashlib.blake2b(repr(frame.pixels.shape).encode(), digest_size=8)
    digest.update(np.ascontiguousarray(frame.pixels).data)
    return digest.hexdigest()


class SerialLog:
    """What a serial console says during a run; the last megabyte of it is kept, after an earlier process's."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SERIAL_LOG
        self._heard: deque[str] = deque()
        self._length = 0
        self._cut = False
        self._before = _read(self._path)

    def hear(self, text: str) -> None:
        """Take in text as it comes."""
        self._heard.append(text)
        self._length += len(text)
        while self._length - len(self._heard[0]) > MAX_SERIAL:
            self._length -= len(self._heard.popleft())
            self._cut = True

    def write(self, redacted: Callable[[str], str]) -> None:
        """Write the log without control sequences and secrets; one that can't be written is left out."""
        from reflexarc.sensing.serial import plain

        raw = "".join(self._heard)
        if self._cut:
            # The first line may have lost its beginning, and with it the beginning of a secret.
            raw = raw.partition("\n")[2]
        text = redacted("".join(plain(line) for line in raw.splitlines(keepends=True)))
        if text:
            with suppress(OSError):
                self._path.write_bytes((self._before + text).encode(errors="replace")[-MAX_SERIAL:])


def _read(path: Path) -> str:
    try:
        return path.read_bytes()[-MAX_SERIAL:].decode(errors="replace")
    except OSError:
        return ""
