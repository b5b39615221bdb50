"""Locks on files, which fall with the process that held them; the machine's: whoever sends to it holds it."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from reflexarc.errors import ConfigError, MachineBusyError

MAX_HOLDER = 500
RETRIES, RETRY = 10, 0.005


class FileLock:
    """An advisory lock on a file; with `with` it is waited for. Raises OSError where the file can't be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is held here."""
        return self._fd is not None

    def take(self) -> bool:
        """Take the lock without waiting; False where another holds it."""
        if self._fd is not None:
            return True
        fd = self._open()
        if _taken(fd):
            self._fd = fd
            return True
        os.close(fd)
        return False

    def wait(self) -> None:
        """Take the lock once nobody else holds it."""
        if self._fd is None:
            fd = self._open()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            except BaseException:
                os.close(fd)
                raise
            self._fd = fd

    def sign(self, holder: str) -> None:
        """Write who holds it, for others to read."""
        assert self._fd is not None
        with suppress(OSError):
            # On a full disk the lock holds all the same; it only can't say who has it.
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, holder.encode()[:MAX_HOLDER], 0)

    def release(self) -> None:
        """Give the lock back; giving it back twice is fine."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def holder(self) -> str | None:
        """Who else holds the lock at this moment, None where nobody does; nothing is made or written."""
        if self._fd is not None:
            return None
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if _try(fd, fcntl.LOCK_SH):
                return None
            return os.pread(fd, MAX_HOLDER, 0).decode(errors="replace").strip() or "another process"
        finally:
            os.close(fd)

    def __enter__(self) -> FileLock:
        self.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class MachineLock:
    """The lock of a machine; `holder` is what others are told while it is held."""

    def __init__(self, path: Path, machine: str, holder: str) -> None:
        self._file = FileLock(path)
        self._machine = machine
        self._holder = holder

    def acquire(self) -> bool:
        """Take the lock or raise MachineBusyError that names the holder; False where it was held here already."""
        if self._file.held:
            return False
        try:
            self._file.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            taken = self._file.take()
        except OSError as error:
            raise self._unusable(error) from error
        if not taken:
            raise MachineBusyError(
                f"in use by {self.holder() or 'another process'}; wait until it ends or is held, or stop it",
                machine=self._machine,
                operation="lock",
            )
        self._file.sign(f"{self._holder} (process {os.getpid()})")
        return True

    def release(self) -> None:
        """Give the lock back; giving it back twice is fine."""
        self._file.release()

    def holder(self) -> str | None:
        """Who else holds the lock at this moment, None where nobody does; nothing is made or written."""
        try:
            return self._file.holder()
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"can't open the lock of machine {self._machine}: {error.strerror}; "
            "check the disk and the rights of that folder",
            path=self._file.path,
        )


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(fd: int) -> bool:
    """Take the lock; one that can be shared is held by somebody who only asks who holds it, and soon free."""
    for _ in range(RETRIES):
        if _try(fd, fcntl.LOCK_EX):
            return True
        if not _try(fd, fcntl.LOCK_SH):
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(RETRY)
    return _try(fd, fcntl.LOCK_EX)
