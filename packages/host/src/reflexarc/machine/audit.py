"""The audit log: one line of JSON for each guarded operation, appended and never rewritten."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import cast

from reflexarc.errors import JournalError
from reflexarc.machine.policy import OPERATIONS

MAX_TEXT = 500
MAX_ITEMS = 20
MAX_LINE = 100_000


class AuditLog:
    """The log in one file, private to the user; any number of programs write to it.

    Raises JournalError when it can't be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, line: Mapping[str, object]) -> None:
        """Append one line: when, by which user of the host, and what the line says.

        A line about a destructive operation that may pass is on the disk when this returns.
        """
        record = {"at": round(time.time(), 3), "user": _user(), **{k: _bounded(v) for k, v in line.items()}}
        durable = bool(line.get("allowed")) and OPERATIONS.get(str(line.get("operation")), False)
        data = json.dumps(record).encode() + b"\n"
        try:
            self._append(data, durable=durable)
        except OSError as error:
            raise JournalError(
                f"can't write the audit log: {error.strerror}; nothing was sent. Free some space, or check its rights",
                path=self._path,
            ) from error

    def _append(self, data: bytes, *, durable: bool) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o600)
        try:
            written = os.write(fd, data)
            if written < len(data):
                with suppress(OSError):
                    os.write(fd, b"\n")
                raise OSError(0, "the disk took a part of the line only")
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)

    def read(self) -> Iterator[Mapping[str, object]]:
        """The lines, oldest first; what is no line of JSON, such as one cut off by a full disk, is left out."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                while text := file.readline(MAX_LINE):
                    with suppress(ValueError, RecursionError):
                        line = json.loads(text)
                        if isinstance(line, dict):
                            yield cast("Mapping[str, object]", line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalError(f"can't read the audit log: {error.strerror}", path=self._path) from error


def _bounded(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value[:MAX_ITEMS]]
    return value if isinstance(value, int | float | None) else str(value)[:MAX_TEXT]


@cache
def _user() -> str:
    """The user by the host's own book, not by what the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
