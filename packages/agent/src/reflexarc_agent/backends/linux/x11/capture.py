"""Taking pictures of the screen or of one window, through memory shared with the server.

Source: MIT-SHM, "XShmGetImage".
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from reflexarc_agent.backends.linux.pictures import PIXELS, Area, Picture, within
from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import Segment, library

Z_PIXMAP = 2
ALL_PLANES = ctypes.c_ulong(-1).value
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0
VIEWABLE = 2


class Capture:
    """Pictures of one display; the shared memory is kept from one to the next."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._ext = library("libXext.so.6")
        if not self._ext.XShmQueryExtension(display.handle):
            raise X11Error(f"{display.name} has no MIT-SHM: only a server of this machine can be captured")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._libc.shmdt.argtypes = (ctypes.c_void_p,)
        self._image: Any = None
        self._segment = Segment()
        self._shape = (0, 0, 0)

    def take(self, window: Optional[int] = None, area: Optional[Area] = None) -> Picture:
        """A picture of the screen, or of a window that is on it; `area` is within that.

        Raises X11Error where the window is gone or not mapped, or the area is empty.
        """
        display = self._display
        with display.lock:
            found = display.attributes(window or display.root)
            if found.map_state != VIEWABLE:
                raise X11Error(f"window {window or 0:#x} is not shown, so there is no picture of it")
            cut = within(area, found.width, found.height)
            self._prepare(found.visual, found.depth, cut.w, cut.h)
            if window:
                cut = self._on_screen(window, cut)
            self._ext.XShmGetImage(
                display.handle, window or display.root, self._image, cut.x, cut.y, ALL_PLANES
            )
            display.check("taking a picture")
            image = self._image.contents
            if image.pixel_bits != 32:
                raise X11Error(f"{display.name} has {image.pixel_bits} bits a pixel; only 32 can be captured")
            return _crop(ctypes.string_at(self._segment.address, image.stride * cut.h), image, cut)

    def close(self) -> None:
        """Give the shared memory back."""
        with self._display.lock:
            if self._image:
                self._ext.XShmDetach(self._display.handle, ctypes.byref(self._segment))
                self._libc.shmdt(self._segment.address)
                self._image = None

    def _on_screen(self, window: int, cut: Area) -> Area:
        """The part of a window's area that is within the screen: the server has pixels of that only."""
        x, y = self._display.position(window)
        screen = self._display.attributes(self._display.root)
        if (
            x + cut.x < 0
            or y + cut.y < 0
            or x + cut.x + cut.w > screen.width
            or y + cut.y + cut.h > screen.height
        ):
            raise X11Error(f"window {window:#x} reaches beyond the screen: move it, or name an area of it")
        return cut

    def _prepare(self, visual: int, depth: int, width: int, height: int) -> None:
        if width * height > PIXELS:
            raise X11Error(f"a picture of {width}x{height} is too large")
        if self._image and self._shape == (width, height, depth):
            return
        self.close()
        handle = self._display.handle
        image = self._ext.XShmCreateImage(
            handle, visual, depth, Z_PIXMAP, None, ctypes.byref(self._segment), width, height
        )
        if not image:
            raise X11Error("the X server made no shared picture")
        size = ctypes.c_size_t(image.contents.stride * height)
        self._segment.id = self._libc.shmget(IPC_PRIVATE, size, IPC_CREAT | 0o600)
        if self._segment.id < 0:
            raise X11Error(f"no shared memory of {size.value} bytes: see kernel.shmmax")
        self._segment.address = self._libc.shmat(self._segment.id, None, 0)
        image.contents.data = self._segment.address
        self._ext.XShmAttach(handle, ctypes.byref(self._segment))
        try:
            self._display.check("sharing memory")
        finally:
            self._libc.shmctl(self._segment.id, IPC_RMID, None)
        self._image, self._shape = image, (width, height, depth)


def _crop(data: bytes, image: Any, cut: Area) -> Picture:
    row = cut.w * 4
    if image.stride != row:
        data = b"".join(data[at : at + row] for at in range(0, image.stride * cut.h, image.stride))
    return Picture(cut.w, cut.h, data)
