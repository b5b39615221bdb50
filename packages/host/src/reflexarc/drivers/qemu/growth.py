"""Waiting until a file grows.

Source: inotify(7).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from contextlib import suppress
from pathlib import Path

_IN_MODIFY = 2
# Where there is no inotify, the file is looked at this often: fast after it grew, slower and slower then.
_FAST, _SLOW = 0.005, 0.04


class Growth:
    """Tells when a file may have grown; for one waiter at a time."""

    def __init__(self, path: Path) -> None:
        self._interval = _FAST
        self._descriptor = _watch(path)
        self._news = asyncio.Event()

    async def wait(self, timeout: float) -> bool:
        """Wait until the file may have grown since the last wait; False where nothing said so in `timeout` seconds."""
        if self._descriptor < 0:
            await asyncio.sleep(min(self._interval, timeout))
            self._interval = min(self._interval * 1.5, _SLOW)
            return True
        loop, descriptor = asyncio.get_running_loop(), self._descriptor
        # Only while somebody waits: a file that never stops growing would keep the loop busy.
        loop.add_reader(descriptor, self._grown)
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(descriptor)
        self._news.clear()
        return True

    def grew(self) -> None:
        """Say that it had: the next look comes soon."""
        self._interval = _FAST

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _grown(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._descriptor, 4096)
        self._news.set()


def _watch(path: Path) -> int:
    """A descriptor that becomes readable whenever the file is written to, -1 where the system has none."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "inotify_init1"):
        return -1
    descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor >= 0 and library.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return -1
    return descriptor
