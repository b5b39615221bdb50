"""Pixels, the keymap, and what sway tells, without a compositor."""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.backends.linux.errors import NotTypeableError
from reflexarc_agent.backends.linux.keysyms import keysym
from reflexarc_agent.backends.linux.pictures import Area, Picture
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.keymap import LEVELS, SETTLE, SHIFT, Keymap
from reflexarc_agent.backends.linux.wayland.pixels import LAYOUTS, picture, upright
from reflexarc_agent.backends.linux.wayland.sway import Sway, socket_of

BLUE, GREEN, RED = 0x12, 0x9A, 0xFE


def fourcc(name: str) -> int:
    return int.from_bytes(name.encode(), "little")


@pytest.mark.parametrize(
    ("kind", "pixel"),
    [
        (0, bytes((BLUE, GREEN, RED, 7))),
        (1, bytes((BLUE, GREEN, RED, 7))),
        (fourcc("XB24"), bytes((RED, GREEN, BLUE, 7))),
        (fourcc("RX24"), bytes((7, BLUE, GREEN, RED))),
        (fourcc("BX24"), bytes((7, RED, GREEN, BLUE))),
        (fourcc("RG24"), bytes((BLUE, GREEN, RED))),
        (fourcc("BG24"), bytes((RED, GREEN, BLUE))),
        (fourcc("XR30"), struct.pack("<I", 3 << 30 | RED << 22 | 3 << 20 | GREEN << 12 | BLUE << 2)),
        (fourcc("XB30"), struct.pack("<I", 3 << 30 | BLUE << 22 | 3 << 20 | GREEN << 12 | RED << 2)),
    ],
)
def test_every_format_is_read(kind: int, pixel: bytes) -> None:
    rows = (pixel * 3 + b"\xee" * 4) * 2
    taken = picture(rows, 3, 2, len(rows) // 2, LAYOUTS[kind])
    assert (taken.width, taken.height) == (3, 2)
    assert [taken.bgrx[at : at + 3] for at in range(0, 24, 4)] == [bytes((BLUE, GREEN, RED))] * 6


def matrix(taken: Picture) -> np.ndarray:
    return np.frombuffer(taken.bgrx, np.uint32).reshape(taken.height, taken.width)


@pytest.mark.parametrize("transform", range(8))
def test_every_transform_is_undone(transform: int) -> None:
    seen = np.arange(6, dtype=np.uint32).reshape(2, 3)
    # The compositor flips first, then turns counter-clockwise.
    drawn = np.rot90(np.fliplr(seen) if transform >= 4 else seen, transform % 4)
    height, width = drawn.shape
    taken = upright(Picture(width, height, drawn.tobytes()), transform)
    assert (matrix(taken) == seen).all()
    inverted = upright(Picture(width, height, np.flipud(drawn).tobytes()), transform, True)
    assert (matrix(inverted) == seen).all()


def test_a_transform_that_is_none_is_refused() -> None:
    with pytest.raises(WaylandError, match="transform 8"):
        upright(Picture(1, 1, b"1234"), 8)


def test_the_keymap_is_one_that_is_compiled() -> None:
    xkb = ctypes.CDLL("libxkbcommon.so.0")
    xkb.xkb_context_new.restype = xkb.xkb_keymap_new_from_string.restype = ctypes.c_void_p
    xkb.xkb_keymap_new_from_string.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    xkb.xkb_keymap_key_get_syms_by_level.argtypes = (
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_uint32)),
    )
    keymap = Keymap()
    wanted = [keysym(character) for character in "漢字é😀aA"]
    placed, _, _ = keymap.place(wanted)
    compiled = xkb.xkb_keymap_new_from_string(xkb.xkb_context_new(1), keymap.text().encode(), 1, 0)
    assert compiled
    for sym in wanted:
        stroke, found = placed[sym], ctypes.POINTER(ctypes.c_uint32)()
        count = xkb.xkb_keymap_key_get_syms_by_level(
            compiled, stroke.code + 8, 0, (0, SHIFT, *LEVELS).index(stroke.modifiers), ctypes.byref(found)
        )
        assert found[:count] == [sym]


def test_characters_of_a_us_keyboard_stay_where_they_are() -> None:
    keymap = Keymap()
    placed, changed, pause = keymap.place([keysym(character) for character in "aA1!\n "])
    assert (changed, pause) == (False, 0.0)
    assert list(placed.values()) == [(30, 0), (30, SHIFT), (2, 0), (2, SHIFT), (28, 0), (57, 0)]
    assert (keymap.key("ctrl"), keymap.key("F12"), keymap.key("é")) == (29, 88, 0)
    with pytest.raises(NotTypeableError, match="no key 'nokey'"):
        keymap.key("nokey")


def test_a_level_gets_another_character_only_when_the_last_one_was_read() -> None:
    now = [100.0]
    keymap = Keymap(lambda: now[0])
    count = len(keymap.spare)
    first = [0x1000000 | 0x4E00 + at for at in range(count)]
    placed, changed, pause = keymap.place(first)
    assert (changed, pause) == (True, 0.0)
    assert len(set(placed.values())) == count > 100
    keymap.typed(first)
    assert keymap.place(first) == (placed, False, 0.0)
    now[0] += 0.1
    other, changed, pause = keymap.place([0x1000000 | 0x3042])
    assert changed
    assert pause == pytest.approx(SETTLE - 0.1)
    assert other[0x1003042] == placed[first[0]]


@given(st.text(min_size=1, max_size=400))
def test_any_text_is_placed_key_by_key(text: str) -> None:
    keymap = Keymap()
    syms = []
    for character in text:
        try:
            syms.append(keysym(character))
        except NotTypeableError:
            continue
    while syms:
        count = keymap.fitting(syms, 200)
        assert 0 < count <= 200
        placed, _, _ = keymap.place(syms[:count])
        assert set(placed) == set(syms[:count])
        strokes = set(placed.values())
        assert len(strokes) == len(set(syms[:count]))
        syms = syms[count:]


def answering(folder: Path, answer: bytes) -> tuple[str, Callable[[], None]]:
    """A sway that says one thing, once; and how to wait for its end."""
    path = str(folder / "sway.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as asked:
            asked.recv(4096)
            asked.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return path, thread.join


TREE = {
    "type": "root",
    "nodes": [
        {
            "id": 5,
            "pid": 77,
            "name": "One",
            "focused": True,
            "visible": True,
            "rect": {"x": 10, "y": 35, "width": 300, "height": 200},
            "window_rect": {"x": 2, "y": 0, "width": 296, "height": 198},
        }
    ],
    "floating_nodes": [{"id": 6, "pid": 77, "name": 3, "rect": {"x": "far"}}, {"id": "x", "pid": 1}, 7, None],
}


def told(kind: int, payload: object) -> bytes:
    data = json.dumps(payload).encode()
    return b"i3-ipc" + struct.pack("=II", len(data), kind) + data


def test_windows_of_sway_are_told_with_their_places(tmp_path: Path) -> None:
    path, join = answering(tmp_path, told(4, TREE))
    first, second = Sway(path).listed()
    join()
    assert (first.id, first.title, first.pid, first.active) == (5, "One", 77, True)
    assert first.frame == Area(12, 35, 296, 198)
    assert (second.id, second.title, second.frame, second.visible) == (6, "", None, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"i3-ipc",
        b"i4-ipc" + struct.pack("=II", 2, 4) + b"{}",
        b"i3-ipc" + struct.pack("=II", 0xFFFFFFFF, 4),
        b"i3-ipc" + struct.pack("=II", 9, 4) + b"{",
        b"i3-ipc" + struct.pack("=II", 100_000, 4) + b"[" * 100_000,
        told(0, TREE),
    ],
)
def test_a_sway_that_breaks_its_protocol_is_told(tmp_path: Path, answer: bytes) -> None:
    path, join = answering(tmp_path, answer)
    with pytest.raises(WaylandError, match="sway"):
        Sway(path).listed()
    join()


def test_the_socket_of_sway_is_found_by_its_process(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert socket_of(environ, (123, 1000, 1000)) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "sway-ipc.1000.123.sock"))
        assert socket_of(environ, (123, 1000, 1000)) == str(tmp_path / "sway-ipc.1000.123.sock")
        assert socket_of(environ, (124, 1000, 1000)) is None
