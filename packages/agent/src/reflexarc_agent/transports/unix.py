"""A unix socket that only its owner, and root, can connect to."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Optional

from reflexarc_agent.channel import SocketChannel
from reflexarc_agent.transports.listening import ListenError

_BACKLOG = 128


class UnixListener:
    """Listens at a path, in place of what an agent that is gone left there."""

    token: Optional[str] = None

    def __init__(self, path: str) -> None:
        self.name = f"unix:{path}"
        self._path = path
        _clear(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The mode must hold from the first moment on, so it can't be set afterwards.
        mask = os.umask(0o177)
        try:
            self._socket.bind(path)
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise ListenError(f"can't listen on {path}: {error}") from error
        finally:
            os.umask(mask)
        self._inode = os.stat(path).st_ino

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> SocketChannel:
        return SocketChannel(self._socket.accept()[0])

    def close(self) -> None:
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        self._socket.close()


def _clear(path: str) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenError(f"{path} is there and no socket: name another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            raise ListenError(f"can't tell who listens on {path}: {error}") from error
    raise ListenError(f"another agent listens on {path}: stop it, or name another path")
