"""Files of the guest, read and written in chunks; a written one replaces the old in one step."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from typing import IO, Dict, Optional, Tuple

from reflexarc_agent.backend import Handlers, RefusalError
from reflexarc_wire.errors import BAD_REQUEST, BUSY, OS_ERROR
from reflexarc_wire.replies import ReadFileReply, WriteFileReply
from reflexarc_wire.requests import ReadFile, WriteFile
from reflexarc_wire.values import Readiness

MAX_READ = 1 << 20
_DEFAULT_READ = 1 << 18
_MAX_UPLOADS = 16
_PIECE = 1 << 20


class Files:
    """The feature "files"."""

    feature = "files"

    def readiness(self) -> Readiness:
        return Readiness(True)

    def open(self) -> FilesSession:
        return FilesSession()


class FilesSession:
    """One connection's unfinished files; those are removed when it ends."""

    def __init__(self) -> None:
        self._uploads: Dict[str, _Upload] = {}

    @property
    def handlers(self) -> Handlers:
        return {ReadFile: read, WriteFile: self.write}

    def write(self, request: WriteFile) -> WriteFileReply:
        """Take a chunk; raises RefusalError where it is out of order or the whole isn't what its sha256 promised."""
        if request.offset == 0:
            self._begin(request.path)
        upload = self._uploads.get(request.path)
        if upload is None or upload.size != request.offset:
            expected = 0 if upload is None else upload.size
            raise RefusalError(
                BAD_REQUEST, f"{request.path}: the next chunk is at {expected}, not {request.offset}"
            )
        try:
            upload.add(request)
            if upload.size < request.size:
                return WriteFileReply(upload.size, False)
            digest = upload.finish()
        except BaseException:
            self._drop(request.path)
            raise
        del self._uploads[request.path]
        return WriteFileReply(upload.size, True, digest)

    def close(self) -> None:
        for path in list(self._uploads):
            self._drop(path)

    def _begin(self, path: str) -> None:
        self._drop(path)
        if len(self._uploads) >= _MAX_UPLOADS:
            raise RefusalError(
                BUSY, f"{_MAX_UPLOADS} files are being written on this connection; finish one first"
            )
        self._uploads[path] = _Upload(path)

    def _drop(self, path: str) -> None:
        upload = self._uploads.pop(path, None)
        if upload is not None:
            upload.discard()


class _Upload:
    """A file on its way, beside its destination."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._mode: Optional[int] = None
        self._promised: Optional[str] = None
        self._digest = hashlib.sha256()
        self.size = 0
        folder, name = os.path.split(self._path)
        handle, self._part = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".part", dir=folder)
        self._file = open(handle, "wb", buffering=0)  # noqa: SIM115

    def add(self, request: WriteFile) -> None:
        self._mode = self._mode if request.mode is None else request.mode
        self._promised = request.sha256 or self._promised
        self._file.write(request.data)
        self._digest.update(request.data)
        self.size += len(request.data)

    def finish(self) -> str:
        """Put the file in place, with the old one's owner and, unless one was asked for, its mode."""
        digest = self._digest.hexdigest()
        if self._promised is not None and self._promised.lower() != digest:
            raise RefusalError(
                BAD_REQUEST, f"{self._path}: what arrived has sha256 {digest}; nothing was replaced"
            )
        mode, owner = self._old()
        with self._file as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode if self._mode is None else self._mode)
            os.fsync(file.fileno())
        os.replace(self._part, self._path)
        return digest

    def discard(self) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._part)

    def _old(self) -> Tuple[int, Optional[Tuple[int, int]]]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return 0o644, None
        if not stat.S_ISREG(found.st_mode):
            raise RefusalError(OS_ERROR, f"{self._path}: not a regular file")
        owner = (found.st_uid, found.st_gid)
        return stat.S_IMODE(found.st_mode), owner if os.geteuid() == 0 else None


def read(request: ReadFile) -> ReadFileReply:
    """Read a chunk of a regular file, at most 1 MiB."""
    offset = request.offset or 0
    size = _DEFAULT_READ if request.size is None else min(request.size, MAX_READ)
    with _open_regular(request.path) as file:
        found = os.fstat(file.fileno())
        file.seek(offset)
        data = _read_all(file, size + 1)
        digest = _sha256(file) if request.sha256 else None
    mode = stat.S_IMODE(found.st_mode)
    return ReadFileReply(data[:size], offset, found.st_size, mode, len(data) <= size, digest)


def _open_regular(path: str) -> IO[bytes]:
    # Opening a named pipe or a device must not wait.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise RefusalError(OS_ERROR, f"{path}: not a regular file")
    return open(handle, "rb", buffering=0)


def _read_all(file: IO[bytes], size: int) -> bytes:
    """Read until there is no more, as files in /proc come in pieces."""
    data = b""
    while len(data) < size and (piece := file.read(size - len(data))):
        data += piece
    return data


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
