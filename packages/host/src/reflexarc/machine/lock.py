"""The machine's lock: whoever sends to a machine holds it; it falls with the process that held it."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from reflexarc.errors import ConfigError, MachineBusyError

MAX_HOLDER = 500
RETRIES, RETRY = 3, 0.01


class MachineLock:
    """An advisory lock on a file; `holder` is what others are told while it is held."""

    def __init__(self, path: Path, machine: str, holder: str) -> None:
        self._path = path
        self._machine = machine
        self._holder = holder
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Take the lock or raise MachineBusyError that names the holder; False where it was held here already."""
        if self._fd is not None:
            return False
        fd = self._open()
        for patience in range(RETRIES, -1, -1):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if patience:
                    # Somebody may only be asking who holds it.
                    time.sleep(RETRY)
                    continue
                holder = os.read(fd, MAX_HOLDER).decode(errors="replace").strip() or "another process"
                os.close(fd)
                raise MachineBusyError(
                    f"in use by {holder}; wait until it ends or is held, or stop it",
                    machine=self._machine,
                    operation="lock",
                ) from None
        with suppress(OSError):
            # On a full disk the lock holds all the same; it only can't say who has it.
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{self._holder} (process {os.getpid()})".encode()[:MAX_HOLDER], 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Give the lock back; giving it back twice is fine."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def held_by_another(self) -> bool:
        """Tell whether somebody else holds the lock at this moment; nothing is taken or written."""
        if self._fd is not None:
            return False
        fd = self._open()
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"can't open the lock of machine {self._machine}: {error.strerror}; "
                "check the disk and the rights of that folder",
                path=self._path,
            ) from error
