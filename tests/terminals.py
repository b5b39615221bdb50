"""A shell at a serial console, on a terminal of this host."""

from __future__ import annotations

import asyncio
import codecs
import os
import pty
import signal
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PtyConsole:
    """The other end of a terminal; implements `Console`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unread: asyncio.Queue[bytes] = asyncio.Queue()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        asyncio.get_running_loop().add_reader(fd, self._take)

    def _take(self) -> None:
        try:
            self._unread.put_nowait(os.read(self._fd, 65_536))
        except OSError:
            asyncio.get_running_loop().remove_reader(self._fd)

    async def read(self) -> str:
        while not (said := self._decoder.decode(await self._unread.get())):
            pass
        return said

    async def write(self, data: str) -> None:
        os.write(self._fd, data.encode())


@asynccontextmanager
async def console(program: str) -> AsyncIterator[PtyConsole]:
    """A shell on a terminal of 80 columns that echoes, as a getty leaves it."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(PS1="# ", TERM="vt100")
        os.execvp(program.split()[0], program.split())
    termios.tcsetwinsize(fd, (25, 80))
    try:
        yield PtyConsole(fd)
    finally:
        asyncio.get_running_loop().remove_reader(fd)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)  # noqa: ASYNC222  # it was killed
        os.close(fd)
