"""Taking pictures of outputs, into memory shared with the compositor.

Source: wlr-screencopy-unstable-v1; ext-image-copy-capture-v1; wayland.xml, "wl_shm".
"""

from __future__ import annotations

import mmap
import os
from contextlib import contextmanager, suppress
from typing import Any, Iterator, List, NamedTuple, Optional

from reflexarc_agent.backends.linux.pictures import PIXELS, Picture
from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.memory import anonymous
from reflexarc_agent.backends.linux.wayland.outputs import Output
from reflexarc_agent.backends.linux.wayland.pixels import LAYOUTS, picture, upright

SCREENCOPY = "zwlr_screencopy_manager_v1"
SOURCES, COPY = "ext_output_image_capture_source_manager_v1", "ext_image_copy_capture_manager_v1"
WHAT = "pictures of its screen"
Y_INVERT, PAINT_CURSORS = 1, 1
ATTEMPTS = 3
"""How often a picture is begun; an output that changes its size meanwhile makes one fail."""


class Shape(NamedTuple):
    """How a compositor wants a buffer to be."""

    format: int
    width: int
    height: int
    stride: int


class _Memory:
    """A buffer that the compositor writes to."""

    def __init__(self, connection: Connection, shape: Shape) -> None:
        size = shape.stride * shape.height
        descriptor = anonymous(size)
        try:
            self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
            shm = connection.only("wl_shm", 1, WHAT)
            pool = connection.request(shm, "create_pool", descriptor, size)
        finally:
            os.close(descriptor)
        at = (0, shape.width, shape.height, shape.stride, shape.format)
        self.object = connection.request(pool, "create_buffer", *at)
        connection.destroy(pool)

    def data(self) -> bytes:
        return self._map[:]

    def close(self) -> None:
        self._map.close()


class _Frame:
    """One picture that is being taken: what the compositor has told of it."""

    def __init__(self) -> None:
        self.shapes: List[Shape] = []
        self.size = (0, 0)
        self.formats: List[int] = []
        self.described = self.ready = self.failed = self.stopped = False
        self.y_inverted = False
        self.transform = 0

    def screencopy(self, event: str, *arguments: Any) -> None:
        """Note an event of a screencopy frame."""
        if event == "buffer" and len(self.shapes) < 32:
            self.shapes.append(Shape(*arguments))
        elif event == "flags":
            self.y_inverted = bool(arguments[0] & Y_INVERT)
        else:
            self._ended(event)

    def session(self, event: str, *arguments: Any) -> None:
        """Note an event of a capture session."""
        if event == "buffer_size":
            self.size = arguments
        elif event == "shm_format" and len(self.formats) < 64:
            self.formats.append(arguments[0])
        elif event == "done":
            width, height = self.size
            self.shapes = [Shape(f, width, height, width * _bytes(f)) for f in self.formats]
            self.described = True
        elif event == "stopped":
            self.stopped = True

    def frame(self, event: str, *arguments: Any) -> None:
        """Note an event of a frame of a capture session."""
        if event == "transform":
            self.transform = arguments[0]
        else:
            self._ended(event)

    def _ended(self, event: str) -> None:
        self.described = self.described or event == "buffer_done"
        self.ready = self.ready or event == "ready"
        self.failed = self.failed or event == "failed"

    @property
    def over(self) -> bool:
        return self.ready or self.failed or self.stopped

    def shape(self) -> Shape:
        """The shape that is read with the least work; raises WaylandError where none can be read, or is too large."""
        order = list(LAYOUTS)
        known = sorted((s for s in self.shapes if s.format in LAYOUTS), key=lambda s: order.index(s.format))
        if not known:
            told = ", ".join(f"{shape.format:#x}" for shape in self.shapes[:8]) or "none"
            raise WaylandError(
                f"the compositor offers no format of pixels that can be read (it offers {told})"
            )
        shape = known[0]
        row = shape.width * LAYOUTS[shape.format].bytes
        if not 0 < shape.width * shape.height <= PIXELS or not row <= shape.stride <= row + 4096:
            raise WaylandError(
                f"the compositor told of a picture of {shape.width}x{shape.height}, {shape.stride} bytes a row"
            )
        return shape


class Capture:
    """Pictures of the outputs of one compositor."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lets nobody take pictures."""
        if not (self._connection.version(SOURCES) and self._connection.version(COPY)):
            self._connection.only(SCREENCOPY, 3, WHAT)
        self._connection.only("wl_shm", 1, WHAT)

    def take(self, output: Output, cursor: bool = False) -> Picture:
        """A picture of an output as it is seen, with the pointer where `cursor`; raises WaylandError."""
        self.require()
        with self._connection.lock:
            for _ in range(ATTEMPTS):
                if self._connection.version(SCREENCOPY):
                    taken = self._copied(output, cursor)
                else:
                    taken = self._captured(output, cursor)
                if taken is not None:
                    return taken
        raise WaylandError(f"the compositor failed to copy {output.name}")

    def _copied(self, output: Output, cursor: bool) -> Optional[Picture]:
        connection, frame = self._connection, _Frame()
        manager = connection.only(SCREENCOPY, 3, WHAT)
        copied = connection.request(
            manager, "capture_output", int(cursor), output.object, tell=frame.screencopy
        )
        with _ending(connection, copied):
            once = connection.version(SCREENCOPY) < 3
            self._wait(lambda: frame.over or frame.described or (once and bool(frame.shapes)))
            if frame.over:
                return None
            shape = frame.shape()
            with self._memory(shape) as memory:
                connection.request(copied, "copy", memory.object)
                self._wait(lambda: frame.over)
                if not frame.ready:
                    return None
                taken = picture(memory.data(), *shape[1:], LAYOUTS[shape.format])
        return upright(taken, output.transform, frame.y_inverted)

    def _captured(self, output: Output, cursor: bool) -> Optional[Picture]:
        connection, frame = self._connection, _Frame()
        source = connection.request(connection.only(SOURCES, 1, WHAT), "create_source", output.object)
        manager = connection.only(COPY, 1, WHAT)
        options = PAINT_CURSORS if cursor else 0
        session = connection.request(manager, "create_session", source, options, tell=frame.session)
        with _ending(connection, source, session):
            self._wait(lambda: frame.over or frame.described)
            if frame.over:
                return None
            shape = frame.shape()
            with self._memory(shape) as memory:
                made = connection.request(session, "create_frame", tell=frame.frame)
                with _ending(connection, made):
                    connection.request(made, "attach_buffer", memory.object)
                    connection.request(made, "damage_buffer", 0, 0, shape.width, shape.height)
                    connection.request(made, "capture")
                    self._wait(lambda: frame.over)
                if not frame.ready:
                    return None
                taken = picture(memory.data(), *shape[1:], LAYOUTS[shape.format])
        return upright(taken, frame.transform)

    def _wait(self, holds: Any) -> None:
        self._connection.wait(holds, "taking a picture")

    @contextmanager
    def _memory(self, shape: Shape) -> Iterator[_Memory]:
        memory = _Memory(self._connection, shape)
        try:
            with _ending(self._connection, memory.object):
                yield memory
        finally:
            memory.close()


@contextmanager
def _ending(connection: Connection, *objects: int) -> Iterator[None]:
    try:
        yield
    finally:
        # Where the connection is lost its objects are gone anyway.
        with suppress(WaylandError):
            for made in reversed(objects):
                connection.destroy(made)


def _bytes(pixel_format: int) -> int:
    return LAYOUTS[pixel_format].bytes if pixel_format in LAYOUTS else 4
