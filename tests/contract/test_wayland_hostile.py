"""Compositors that offer another way of taking pictures, and such as break the protocol."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compositor import Compositor, Shown, listening

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.wayland.devices import Wayland
from reflexarc_agent.backends.linux.wayland.errors import WaylandError

OFFERED = {"wl_shm": 1, "wl_output": 3}
SCREENCOPY = OFFERED | {"zwlr_screencopy_manager_v1": 3}
COPY_CAPTURE = OFFERED | {
    "ext_output_image_capture_source_manager_v1": 1,
    "ext_image_copy_capture_manager_v1": 1,
}
XRGB8888, BGR888 = 1, int.from_bytes(b"BG24", "little")
# Two rows of three pixels, each of one number in blue, green and red.
GREYS = ((10, 20, 30), (40, 50, 60))
SHOWN = Shown(XRGB8888, 3, 2, 12, b"".join(bytes((grey,)) * 4 for row in GREYS for grey in row))
PACKED = b"".join(b"".join(bytes((grey,)) * 3 for grey in row) + b"\xee" * 3 for row in GREYS)


def greys(folder: Path, compositor: Compositor) -> list[list[int]]:
    """A picture's rows of blue, as the agent takes it."""
    with listening(folder, compositor.serve) as environ, Wayland(environ) as display:
        taken = display.shot().picture
    rows = range(0, taken.height * taken.width * 4, taken.width * 4)
    return [list(taken.bgrx[at : at + taken.width * 4 : 4]) for at in rows]


@pytest.mark.parametrize("offered", [SCREENCOPY, COPY_CAPTURE])
@pytest.mark.parametrize(
    ("shown", "rows"),
    [
        (SHOWN, [[10, 20, 30], [40, 50, 60]]),
        (replace(SHOWN, transform=2), [[60, 50, 40], [30, 20, 10]]),
        (replace(SHOWN, transform=1), [[40, 10], [50, 20], [60, 30]]),
        (replace(SHOWN, transform=4), [[30, 20, 10], [60, 50, 40]]),
    ],
)
def test_a_picture_is_taken_by_either_protocol(
    tmp_path: Path, offered: dict[str, int], shown: Shown, rows: list[list[int]]
) -> None:
    compositor = Compositor(offered, shown)
    assert greys(tmp_path, compositor) == rows
    made = [
        name for name in compositor.asked if name.endswith((".capture_output", ".create_buffer", ".copy"))
    ]
    destroyed = compositor.asked.count("wl_buffer.destroy") + compositor.asked.count("wl_shm_pool.destroy")
    assert destroyed == 2
    assert made


def test_rows_with_gaps_and_upside_down_are_read(tmp_path: Path) -> None:
    shown = Shown(BGR888, 3, 2, 12, PACKED, y_inverted=True)
    assert greys(tmp_path, Compositor(SCREENCOPY, shown)) == [[40, 50, 60], [10, 20, 30]]


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        (replace(SHOWN, format=0x20203852), "no format of pixels that can be read .it offers 0x20203852"),
        (replace(SHOWN, stride=8), "a picture of 3x2, 8 bytes a row"),
        (replace(SHOWN, stride=1 << 30), "a picture of 3x2"),
    ],
)
def test_a_picture_that_cannot_be_is_refused(tmp_path: Path, shown: Shown, problem: str) -> None:
    with (
        listening(tmp_path, Compositor(SCREENCOPY, shown).serve) as environ,
        Wayland(environ) as display,
        pytest.raises(WaylandError, match=problem),
    ):
        display.shot()


def test_a_picture_larger_than_any_screen_is_refused(tmp_path: Path) -> None:
    shown = replace(SHOWN, width=60_000, height=60_000, stride=240_000)
    with (
        listening(tmp_path, Compositor(SCREENCOPY, shown).serve) as environ,
        Wayland(environ) as display,
        pytest.raises(WaylandError, match="60000x60000"),
    ):
        display.shot()


def test_what_is_not_offered_is_named(tmp_path: Path) -> None:
    with listening(tmp_path, Compositor(OFFERED, SHOWN).serve) as environ, Wayland(environ) as display:
        with pytest.raises(NotOfferedError, match=r"pictures of its screen \(zwlr_screencopy_manager_v1\)"):
            display.shot()
        with pytest.raises(NotOfferedError, match="a keyboard to type with"):
            display.type("a")
        with pytest.raises(NotOfferedError, match="a pointer to move"):
            display.click(1, 1)
        with pytest.raises(NotOfferedError, match="its clipboard"):
            display.clipboard.get()
        with pytest.raises(NotOfferedError, match="a list of its windows"):
            display.windows.listed()


def descriptors() -> set[str]:
    return {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    }


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wayland"]


@given(st.binary(max_size=300), st.integers(0, 3))
def test_any_garbage_is_an_error_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, passed: int
) -> None:
    before, reading = descriptors(), readers()

    def serve(client: socket.socket) -> None:
        reader, writer = os.pipe()
        with client:
            client.recv(4096)
            socket.send_fds(client, [garbage or b"\0"], [reader] * passed)
        os.close(reader)
        os.close(writer)

    with listening(tmp_path_factory.mktemp("own"), serve) as environ, pytest.raises(WaylandError):
        Wayland(environ)
    assert readers() == reading
    assert descriptors() <= before


def test_a_compositor_that_floods_is_left(tmp_path: Path) -> None:
    reading = readers()
    offers = b"".join(
        struct.pack("=IIIIII", 2, 24 << 16, number, 3, int.from_bytes(b"ab\0\0", "little"), 1)
        for number in range(50_000)
    )

    def serve(client: socket.socket) -> None:
        with client:
            client.recv(4096)
            client.sendall(offers)
            client.sendall(random.Random(1).randbytes(4096))

    with listening(tmp_path, serve) as environ, pytest.raises(WaylandError, match="the compositor"):
        Wayland(environ)
    assert readers() == reading


def test_an_error_of_the_compositor_is_told_in_its_words(tmp_path: Path) -> None:
    said = b"no such thing\0\0\0"

    def serve(client: socket.socket) -> None:
        with client:
            client.recv(4096)
            client.sendall(struct.pack("=IIIII", 1, (20 + len(said)) << 16, 1, 3, 14) + said)

    with (
        listening(tmp_path, serve) as environ,
        pytest.raises(WaylandError, match="wl_display error 3: no such thing"),
    ):
        Wayland(environ)


@pytest.mark.full
def test_a_compositor_that_says_nothing_costs_one_timeout(tmp_path: Path) -> None:
    left, reading = threading.Event(), readers()

    def serve(client: socket.socket) -> None:
        with client:
            left.wait()

    with listening(tmp_path, serve) as environ:
        with pytest.raises(WaylandError, match="did not answer within 5 s"):
            Wayland(environ)
        left.set()
    assert readers() == reading
