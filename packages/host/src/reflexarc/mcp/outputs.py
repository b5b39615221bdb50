"""What commands wrote beyond the bound of a result: kept in a folder for as long as the server lives."""

from __future__ import annotations

import secrets
import tempfile
from collections import deque
from pathlib import Path

from reflexarc.errors import JournalError
from reflexarc.mcp import veil

MAX_KEPT = 4 << 20
MAX_OUTPUTS = 16
PART = 64 << 10


class Outputs:
    """The newest outputs, each in parts of 64 KiB; the folder is made when it is needed and removed by `close`."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: deque[tuple[str, int]] = deque()

    def keep(self, data: bytes) -> str:
        """Keep an output, at most 4 MiB of it, and return its name; raises JournalError where the disk is full."""
        name = secrets.token_hex(4)
        data = veil.withheld().encode() or veil.masked_bytes(data)
        try:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(
                    prefix="reflexarc-mcp-", ignore_cleanup_errors=True
                )
            path = Path(self._folder.name) / name
            path.write_bytes(data[:MAX_KEPT])
        except OSError as error:
            raise JournalError(f"can't keep the output: {error.strerror}", path=Path(name)) from error
        self._kept.append((name, parts_of(len(data))))
        while len(self._kept) > MAX_OUTPUTS:
            (path.parent / self._kept.popleft()[0]).unlink(missing_ok=True)
        return name

    def part(self, name: str, number: str) -> str | None:
        """A part of an output as text, the first is 0; None where there is none."""
        parts = next((parts for kept, parts in self._kept if kept == name), 0)
        if (
            self._folder is None
            or not number.isascii()
            or not number.isdigit()
            or not int(number[:9]) < parts
        ):
            return None
        with (Path(self._folder.name) / name).open("rb") as file:
            file.seek(int(number[:9]) * PART)
            return file.read(PART).decode(errors="replace")

    def close(self) -> None:
        """Remove them."""
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None
        self._kept.clear()


def parts_of(size: int) -> int:
    """In how many parts an output of so many bytes is kept."""
    return -(-min(size, MAX_KEPT) // PART)
