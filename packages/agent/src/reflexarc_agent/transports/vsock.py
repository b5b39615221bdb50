"""vsock: no network, and no host but the one that runs this guest.

Sources: vsock(7); Linux, include/uapi/linux/vm_sockets.h; XNU, bsd/sys/vsock.h.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Optional, Tuple

from reflexarc_agent.channel import SocketChannel

CID_ANY = 0xFFFFFFFF
CID_HOST = 2
_FAMILY = 40
_BACKLOG = 128
_DARWIN = sys.platform == "darwin"
_ADDRESS_ROOM = 128


class VsockListener:
    """Listens on a port of every address this guest has, and serves the host only.

    A process in the guest comes with the guest's own address or the loopback's. Raises OSError where there is no
    vsock. `native` is whether Python's own support is used, which it has on Linux unless it was built without.
    """

    token: Optional[str] = None

    def __init__(self, port: int, *, native: bool = hasattr(socket, "AF_VSOCK")) -> None:
        self.name = f"vsock:{port}"
        self._native = native
        self._socket = socket.socket(_FAMILY, socket.SOCK_STREAM)
        try:
            if native:
                self._socket.bind((CID_ANY, port))
            else:
                _call("bind", self._socket, address(CID_ANY, port))
            self._socket.listen(_BACKLOG)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> SocketChannel:
        if self._native:
            connected, (cid, _) = self._socket.accept()
        else:
            connected, cid = _accept(self._socket)
        if cid != CID_HOST:
            connected.close()
            raise PermissionError(errno.EPERM, f"a process at CID {cid}, which isn't the host")
        return SocketChannel(connected)

    def close(self) -> None:
        self._socket.close()


def connect(
    cid: int, port: int, timeout: float, *, native: bool = hasattr(socket, "AF_VSOCK")
) -> socket.socket:
    """Connect to a port; raises OSError where nobody takes the connection within `timeout`."""
    connected = socket.socket(_FAMILY, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        with suppress(BlockingIOError):
            if native:
                connected.connect((cid, port))
            else:
                _call("connect", connected, address(cid, port))
        poll = select.poll()
        poll.register(connected.fileno(), select.POLLOUT)
        if not poll.poll(timeout * 1000):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        failed = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise OSError(failed, os.strerror(failed))
        return connected
    except BaseException:
        connected.close()
        raise


def address(cid: int, port: int, *, darwin: bool = _DARWIN) -> bytes:
    """A `struct sockaddr_vm`; port and CID are at the same place in both."""
    if darwin:
        return struct.pack("=BBHII", 12, _FAMILY, 0, port, cid)
    return struct.pack("=HHIIB3x", _FAMILY, 0, port, cid, 0)


def peer(found: bytes) -> Tuple[int, int]:
    """The CID and port of a `struct sockaddr_vm`."""
    port, cid = struct.unpack_from("=II", found, 4)
    return cid, port


def _accept(listening: socket.socket) -> Tuple[socket.socket, int]:
    import ctypes

    room = ctypes.create_string_buffer(_ADDRESS_ROOM)
    size = ctypes.c_uint32(_ADDRESS_ROOM)
    fd = _checked(_libc().accept(listening.fileno(), room, ctypes.byref(size)))
    os.set_inheritable(fd, False)
    return socket.socket(_FAMILY, socket.SOCK_STREAM, 0, fileno=fd), peer(room.raw)[0]


def _call(function: str, of: socket.socket, at: bytes) -> None:
    _checked(getattr(_libc(), function)(of.fileno(), at, len(at)))


def _libc() -> Any:
    # Only where it is needed: it costs some 10 ms, and small Pythons lack it.
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    import ctypes

    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
