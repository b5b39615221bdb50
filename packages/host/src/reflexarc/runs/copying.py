"""Copying files between this host and a guest, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO

from reflexarc.errors import ConfigError, OperationRejectedError
from reflexarc.machine.machine import Machine

PIECE = 256 << 10
MAX_DOWNLOAD = 64 << 30

Told = Callable[[int], None]


async def pieces(file: BinaryIO, told: Told = lambda size: None) -> AsyncIterator[bytes]:
    """A file from its beginning; told: how many bytes were given out, after each piece."""
    file.seek(0)
    size = 0
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece
        size += len(piece)
        told(size)


async def fetch(machine: Machine, source: str, target: Path, told: Told = lambda size: None) -> int:
    """Copy a file of the guest to a path of this host that was checked, and return how many bytes it has.

    Raises ConfigError where it can't be written, OperationRejectedError where it is larger than 64 GiB.
    """
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            size = await _write(machine, source, file, told)
        part.replace(target)
    except OSError as error:
        raise ConfigError(f"can't write the download: {error.strerror}", path=target) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return size


async def _write(machine: Machine, source: str, file: BinaryIO, told: Told) -> int:
    """Write what the guest sends of a file, and return how many bytes it was."""
    size = 0
    async with aclosing(machine.files.read(source)) as read:
        async for piece in read:
            size += len(piece)
            if size > MAX_DOWNLOAD:
                raise OperationRejectedError(
                    f"{source} is larger than {MAX_DOWNLOAD >> 30} GiB; nothing of it was kept",
                    machine=machine.name,
                    operation="files.read",
                    code="too large",
                )
            await asyncio.to_thread(file.write, piece)
            told(size)
    return size
