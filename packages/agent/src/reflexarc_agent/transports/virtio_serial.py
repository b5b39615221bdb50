"""A serial device as a stream that conversations share: a port of virtio-serial, or any terminal.

Source: Linux, drivers/char/virtio_console.c: without a host a port is at its end and can't be written.
"""

from __future__ import annotations

import os
import select
import termios
import tty
from contextlib import suppress
from pathlib import Path

from reflexarc_agent.stopping import Stop, notice
from reflexarc_agent.transports.listening import RETRY, Serve
from reflexarc_agent.transports.shared import SharedStream

_PORTS = Path("/dev/virtio-ports")
_CLASS = Path("/sys/class/virtio-ports")
# Nothing but asking tells that a host has come to a port.
_LOOK = 0.1


class SerialDevice:
    """Serves the host at the other end of a device; both may come and go.

    `device` is a path, or the name of a virtio-serial port.
    """

    def __init__(self, device: str) -> None:
        self.name = f"serial:{device}"
        self._device = device

    def run(self, serve: Serve, stop: Stop) -> None:
        told, pause = "", 0.0
        while stop.wait(timeout=pause) is not None:
            pause = RETRY
            try:
                fd = _open(path_of(self._device))
            except OSError as error:
                if told != str(error):
                    told = str(error)
                    notice(f"waiting for {self.name}: {told}")
                continue
            notice(f"serving {self.name}")
            told = ""
            try:
                # A device that is gone is looked for again.
                with suppress(OSError):
                    _serve_hosts(fd, serve, stop)
            finally:
                os.close(fd)


def path_of(device: str) -> str:
    """The path of a port by its name; udev makes one where it runs, else the kernel's own name serves."""
    if device.startswith("/"):
        return device
    linked = _PORTS / device
    if not linked.exists():
        for entry in _CLASS.glob("*/name"):
            with suppress(OSError):
                if entry.read_text("utf-8").strip() == device:
                    return f"/dev/{entry.parent.name}"
    return str(linked)


def _open(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if os.isatty(fd):
            _make_raw(fd)
    except termios.error as error:
        os.close(fd)
        raise OSError(*error.args) from error
    return fd


def _make_raw(fd: int) -> None:
    """Let bytes through as they are, whether or not a modem says that somebody is there."""
    tty.setraw(fd)
    attributes = termios.tcgetattr(fd)
    attributes[2] |= termios.CLOCAL
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _serve_hosts(fd: int, serve: Serve, stop: Stop) -> None:
    """Serve one host after the other; returns, or raises OSError, where the device must be opened anew."""
    while SharedStream(fd, serve).run(stop) and not os.isatty(fd):
        while _is_alone(fd):
            if stop.wait(timeout=_LOOK) is None:
                return


def _is_alone(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
