"""Pixels, changes, pointer and keys of a real X server."""

from __future__ import annotations

import io
import random
import unicodedata

import numpy as np
import pytest
from guests.desktop.session import DesktopSession
from PIL import Image
from tests.desktop import Driven

from reflexarc_agent.backends.linux.errors import DisplayError, NotTypeableError
from reflexarc_agent.backends.linux.keysyms import keysym
from reflexarc_agent.backends.linux.pictures import Area, Picture, jpeg, png
from reflexarc_agent.backends.linux.x11.changes import Changes
from reflexarc_agent.backends.linux.x11.devices import X11
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.windows import Window


def pixels(picture: Picture) -> np.ndarray:
    """The picture as rows of red, green, blue."""
    return np.frombuffer(picture.bgrx, np.uint8).reshape(picture.height, picture.width, 4)[:, :, 2::-1]


def window_of(x11: X11, pid: int) -> Window:
    """The window of a process, once the window manager has it."""
    with Changes(x11.display.name) as changes:
        while True:
            for window in x11.windows.listed():
                if window.pid == pid:
                    return window
            changes.wait(1.0)


@pytest.fixture
def window(gtk3: Driven, x11: X11) -> int:
    """The window of the application, in front of the others."""
    own = window_of(x11, gtk3.pid).id
    x11.windows.activate(own)
    return own


def still(x11: X11, window: int) -> tuple[np.ndarray, np.ndarray]:
    """The window and the screen between two changes of it, once it has drawn itself: before it is all of one colour."""
    while True:
        alone, screen, again = (pixels(x11.capture.take(which)) for which in (window, None, window))
        if (alone == again).all() and (alone != alone[0, 0]).any():
            return alone, screen


def test_a_window_is_taken_as_it_is_on_the_screen(x11: X11, window: int) -> None:
    (listed,) = [known for known in x11.windows.listed() if known.id == window]
    alone, screen = still(x11, window)
    frame = listed.frame
    assert screen.shape == (1024, 1280, 3)
    assert alone.shape == (frame.h, frame.w, 3)
    assert len(np.unique(alone.reshape(-1, 3), axis=0)) > 50
    assert (screen[frame.y : frame.y + frame.h, frame.x : frame.x + frame.w] == alone).all()
    part = pixels(x11.capture.take(window, Area(10, 20, 33, 17)))
    assert (part == alone[20:37, 10:43]).all()


def test_png_keeps_every_pixel_and_jpeg_nearly(x11: X11, window: int) -> None:
    picture = x11.capture.take(window)
    true = pixels(picture)
    assert (np.asarray(Image.open(io.BytesIO(png(picture)))) == true).all()
    data = jpeg(picture, 90)
    assert data is not None
    lossy = np.asarray(Image.open(io.BytesIO(data)), np.int16)
    assert np.abs(lossy - true).mean() < 4


def test_what_cannot_be_taken_is_said(x11: X11) -> None:
    with pytest.raises(DisplayError, match="outside of 1280x1024"):
        x11.capture.take(area=Area(2000, 0, 10, 10))
    with pytest.raises(X11Error, match="0x7ffffff"):
        x11.capture.take(0x7FFFFFF)
    with pytest.raises(X11Error, match="':999' can't be reached"):
        X11(":999")
    assert x11.capture.take(area=Area(0, 0, 2, 2)).width == 2


def test_a_change_is_told_with_its_place(
    desktop: DesktopSession, x11: X11, gtk3: Driven, window: int
) -> None:
    x11.windows.activate(window)
    (entry,) = gtk3.find(name="Name")
    gtk3.run(gtk3.session.focus(entry["ref"]))
    frame = entry["frame"]
    with Changes(desktop.environ["DISPLAY"]) as changes:
        gtk3.run(gtk3.session.set_value(entry["ref"], "changed"))
        seen = changes.wait(5.0)
    assert any(area.y < frame["y"] + frame["h"] and area.y + area.h > frame["y"] for area in seen)


def test_the_pointer_goes_and_clicks_where_it_is_told(x11: X11, gtk3: Driven) -> None:
    frame = gtk3.find(name="Build")[0]["frame"]
    x11.click(frame["x"] + 5, frame["y"] + 5)
    assert x11.display.pointer()[:2] == (frame["x"] + 5, frame["y"] + 5)
    gtk3.wait(name="built")


def test_a_window_is_moved_and_closed(x11: X11, own_gtk3: Driven) -> None:
    window = window_of(x11, own_gtk3.pid)
    with Changes(x11.display.name) as changes:
        x11.windows.move(window.id, Area(40, 60, 0, 0))
        while window_of(x11, own_gtk3.pid).frame.x != 40:
            changes.wait(1.0)
    x11.windows.close(window.id)
    own_gtk3.wait(role="window", gone=True)
    assert window.id not in [known.id for known in x11.windows.listed()]


SHOWN = ("Ll", "Lu", "Lo", "Nd", "Sm", "Sc", "Po")


def typeable(count: int, seed: int) -> str:
    """Random characters of the basic plane that show and don't combine."""
    chosen, generator = "", random.Random(seed)
    while len(chosen) < count:
        character = chr(generator.randrange(0x21, 0xFFFF))
        if (
            unicodedata.category(character) in ("Ll", "Lu", "Lo", "Nd", "Sm", "Sc", "Po")
            and not ord(character) >= 0xFB1D
        ):
            chosen += character
    return chosen


@pytest.mark.parametrize(
    "text", ["Hello, World! ~{}|", "straße ÀÉ €", "漢字かな交じり文", "emoji 😀🎉", typeable(60, 1)]
)
def test_any_text_is_typed_without_a_mistake(x11: X11, gtk3: Driven, text: str) -> None:
    entry = gtk3.ref(name="Name")
    gtk3.run(gtk3.session.set_value(entry, ""))
    assert gtk3.run(gtk3.session.focus(entry)).delivery == "delivered"
    x11.type(text)
    assert gtk3.wait(name="Name", value=text)["value"] == text


@pytest.mark.full
def test_sixty_random_characters_are_typed_twenty_times_without_a_mistake(x11: X11, gtk3: Driven) -> None:
    entry = gtk3.ref(name="Name")
    for seed in range(20):
        gtk3.run(gtk3.session.set_value(entry, ""))
        gtk3.run(gtk3.session.focus(entry))
        x11.type(typeable(60, seed))
        gtk3.wait(name="Name", value=typeable(60, seed))


def test_a_chord_is_pressed_and_let_go(x11: X11, gtk3: Driven) -> None:
    entry = gtk3.ref(name="Name")
    gtk3.run(gtk3.session.focus(entry))
    x11.key("ctrl+a")
    x11.key("delete")
    gtk3.wait(name="Name", value="")
    x11.keyboard.key_down("shift")
    x11.key("a")
    gtk3.wait(name="Name", value="A")
    x11.keyboard.release()
    x11.type("a")
    gtk3.wait(name="Name", value="Aa")


@pytest.mark.parametrize("chord", ["", "nokey", "ctrl+nokey", "a+" * 9 + "a"])
def test_what_is_no_chord_is_refused(x11: X11, chord: str) -> None:
    with pytest.raises(NotTypeableError):
        x11.key(chord)


@pytest.mark.parametrize("character", ["\0", "\x7f", "\ud800", "\x85"])
def test_what_is_no_character_is_refused_before_anything_is_typed(x11: X11, character: str) -> None:
    with pytest.raises(NotTypeableError):
        x11.type("abc" + character)


def test_keysyms_are_those_of_the_protocol() -> None:
    assert [keysym(character) for character in "aé€😀\n"] == [0x61, 0xE9, 0x10020AC, 0x101F600, 0xFF0D]
