"""A compositor of our own, for what no real one here offers or would ever say."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflexarc_agent.backends.linux.wayland.interfaces import INTERFACES


@dataclass
class Buffer:
    """A client's buffer: where in which shared memory it is."""

    memory: mmap.mmap
    offset: int
    size: int


@dataclass
class Shown:
    """What the one output shows: the bytes of its buffer, and how the compositor tells of them."""

    format: int
    width: int
    height: int
    stride: int
    data: bytes
    transform: int = 0
    y_inverted: bool = False


@dataclass
class Compositor:
    """Offers `interfaces`, to one client after the other, and answers requests for pictures with `shown`."""

    interfaces: dict[str, int]
    shown: Shown
    asked: list[str] = field(default_factory=list)

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            Client(self, client).run()
        client.close()


class Client:
    """One client's objects."""

    def __init__(self, compositor: Compositor, stream: socket.socket) -> None:
        self.compositor = compositor
        self.stream = stream
        self.objects = {1: "wl_display"}
        self.values: dict[int, Any] = {}
        self.received, self.passed = bytearray(), array.array("i")

    def run(self) -> None:
        while True:
            data, fds, _, _ = socket.recv_fds(self.stream, 1 << 16, 28)
            if not data:
                return
            self.received += data
            self.passed.extend(fds)
            while len(self.received) >= 8:
                number, word = struct.unpack_from("=II", self.received)
                if len(self.received) < word >> 16:
                    break
                body = bytes(self.received[8 : word >> 16])
                del self.received[: word >> 16]
                self.request(number, word & 0xFFFF, body)

    def request(self, number: int, opcode: int, body: bytes) -> None:
        interface = self.objects[number]
        name, arguments, makes = INTERFACES[interface].requests[opcode]
        values: list[Any] = []
        at = 0
        for kind in arguments:
            if kind == "h":
                values.append(self.passed.pop(0))
                continue
            value = struct.unpack_from("=i" if kind in "if" else "=I", body, at)[0]
            at += 4
            if kind == "s":
                values.append(body[at : at + value - 1].decode())
                at += value + -value % 4
            else:
                values.append(value)
        if "n" in arguments:
            made = values[-1] if name == "bind" else values[arguments.index("n")]
            self.objects[made] = makes or values[1]
        self.compositor.asked.append(f"{interface}.{name}")
        answer: Callable[..., None] | None = getattr(self, f"on_{interface}_{name}", None)
        if answer:
            answer(number, *values)
        elif name == "destroy":
            self.tell(1, "delete_id", number)

    def tell(self, number: int, name: str, *values: Any) -> None:
        events = INTERFACES[self.objects[number]].events
        opcode, event = next((at, e) for at, e in enumerate(events) if e.name == name)
        body = b""
        for kind, value in zip(event.arguments, values, strict=True):
            if kind == "s":
                data = value.encode() + b"\0"
                body += struct.pack("=I", len(data)) + data + bytes(-len(data) % 4)
            else:
                body += struct.pack("=i" if kind in "if" else "=I", value)
        self.stream.sendall(struct.pack("=II", number, len(body) + 8 << 16 | opcode) + body)

    # -- what is answered

    def on_wl_display_sync(self, _: int, made: int) -> None:
        self.tell(made, "done", 0)
        self.tell(1, "delete_id", made)

    def on_wl_display_get_registry(self, _: int, made: int) -> None:
        for at, (interface, version) in enumerate(self.compositor.interfaces.items()):
            self.tell(made, "global", at, interface, version)

    def on_wl_registry_bind(self, _: int, name: int, interface: str, version: int, made: int) -> None:
        shown = self.compositor.shown
        if interface == "wl_output":
            self.tell(made, "geometry", 0, 0, 0, 0, 0, "", "", shown.transform)
            self.tell(made, "mode", 1, shown.width, shown.height, 60)

    def on_wl_shm_create_pool(self, _: int, made: int, descriptor: int, size: int) -> None:
        self.values[made] = mmap.mmap(descriptor, size)
        os.close(descriptor)

    def on_wl_shm_pool_create_buffer(
        self, pool: int, made: int, offset: int, width: int, height: int, stride: int, kind: int
    ) -> None:
        assert (width, height, kind) == (
            self.compositor.shown.width,
            self.compositor.shown.height,
            self.compositor.shown.format,
        )
        self.values[made] = Buffer(self.values[pool], offset, stride * height)

    def draw(self, buffer: int) -> None:
        drawn, data = self.values[buffer], self.compositor.shown.data
        assert drawn.size == len(data)
        drawn.memory[drawn.offset : drawn.offset + drawn.size] = data

    def on_zwlr_screencopy_manager_v1_capture_output(self, _: int, made: int, cursor: int, out: int) -> None:
        shown = self.compositor.shown
        self.tell(made, "buffer", shown.format, shown.width, shown.height, shown.stride)
        self.tell(made, "buffer_done")

    def on_zwlr_screencopy_frame_v1_copy(self, frame: int, buffer: int) -> None:
        self.draw(buffer)
        self.tell(frame, "flags", int(self.compositor.shown.y_inverted))
        self.tell(frame, "ready", 0, 0, 0)

    def on_ext_image_copy_capture_manager_v1_create_session(
        self, _: int, made: int, source: int, options: int
    ) -> None:
        shown = self.compositor.shown
        self.tell(made, "shm_format", shown.format)
        self.tell(made, "buffer_size", shown.width, shown.height)
        self.tell(made, "done")

    def on_ext_image_copy_capture_frame_v1_attach_buffer(self, frame: int, buffer: int) -> None:
        self.values[frame] = buffer

    def on_ext_image_copy_capture_frame_v1_capture(self, frame: int) -> None:
        self.draw(self.values[frame])
        self.tell(frame, "transform", self.compositor.shown.transform)
        self.tell(frame, "ready")


@contextmanager
def listening(folder: Path, serve: Callable[[socket.socket], None]) -> Iterator[dict[str, str]]:
    """Hand clients to `serve`, one after the other; gives the environment in which they find it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "wayland-own"))
        listener.listen()

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                serve(client)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield {"WAYLAND_DISPLAY": "wayland-own", "XDG_RUNTIME_DIR": str(folder)}
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
