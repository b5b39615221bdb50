"""A real wlroots compositor: its pixels, pointer, keys, windows and clipboard, beside tools of others."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
from guests.desktop.wayland import SwaySession
from PIL import Image
from tests.contract.test_x11 import typeable
from tests.desktop import Driven, started
from tests.sway import placed, window_of

from reflexarc_agent.backends.linux.atspi.accessibility import Accessibility
from reflexarc_agent.backends.linux.errors import DisplayError, NotOfferedError, NotTypeableError
from reflexarc_agent.backends.linux.pictures import Area, Picture, Points
from reflexarc_agent.backends.linux.wayland.devices import Wayland
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.seat import Seat
from reflexarc_agent.backends.linux.wayland.windows import Toplevels, Window


@pytest.fixture(scope="module")
def gtk3(sway: SwaySession, sway_tree: Accessibility) -> Iterator[Driven]:
    yield from started(sway, sway_tree, "gtk3")


@pytest.fixture
def gtk4(sway: SwaySession, sway_tree: Accessibility) -> Iterator[Driven]:
    """A floating window, before the others."""
    yield from started(sway, sway_tree, "gtk4")


def pixels(picture: Picture) -> np.ndarray:
    """The picture as rows of red, green, blue."""
    return np.frombuffer(picture.bgrx, np.uint8).reshape(picture.height, picture.width, 4)[:, :, 2::-1]


def grim(sway: SwaySession, *arguments: str) -> np.ndarray:
    taken = subprocess.run(
        ["grim", "-t", "ppm", *arguments, "-"], env=sway.environ, capture_output=True, check=True
    )
    return np.asarray(Image.open(io.BytesIO(taken.stdout)).convert("RGB"))


def same(sway: SwaySession, wayland: Wayland, output: str) -> np.ndarray:
    """A picture that grim takes the same, between two changes of the screen."""
    while True:
        before = pixels(wayland.shot(output).picture)
        beside = grim(sway, "-o", output)
        if before.shape == beside.shape and (before == beside).all():
            return before


def test_outputs_are_told_in_points_from_the_first_ones_corner(wayland: Wayland) -> None:
    first, second = wayland.outputs.listed()
    assert (first.name, first.w, first.h, first.scale, first.transform) == ("HEADLESS-1", 1280, 1024, 1, 0)
    assert (second.name, second.x - first.x, second.y - first.y) == ("HEADLESS-2", 1280, 0)
    assert (second.w, second.h, second.width, second.height) == (300, 400, 600, 800)
    assert second.scale == 2


def test_pictures_are_those_that_grim_takes(sway: SwaySession, wayland: Wayland, gtk3: Driven) -> None:
    for name, shape in (("HEADLESS-1", (1024, 1280, 3)), ("HEADLESS-2", (800, 600, 3))):
        assert same(sway, wayland, name).shape == shape
    assert len(set(memoryview(wayland.shot().picture.bgrx).cast("I"))) > 50


def test_a_region_of_points_is_cut_out_of_the_display_it_is_on(wayland: Wayland, gtk3: Driven) -> None:
    whole = pixels(wayland.shot().picture)
    part = wayland.shot(region=Points(10, 20, 33, 17))
    assert (pixels(part.picture) == whole[20:37, 10:43]).all()
    turned = wayland.shot(region=Points(1280 + 10, 20, 33, 17))
    assert (turned.scale, turned.picture.width, turned.picture.height) == (2, 66, 34)
    with pytest.raises(WaylandError, match="is on no display"):
        wayland.shot(region=Points(5000, 0, 10, 10))
    with pytest.raises(DisplayError, match="is outside of 1280x1024"):
        wayland.shot("HEADLESS-1", Points(5000, 0, 10, 10))
    with pytest.raises(NotOfferedError, match=r"'DP-1' here; there are HEADLESS-1, HEADLESS-2"):
        wayland.shot("DP-1")


@pytest.mark.full
def test_an_output_turned_any_way_is_taken_upright(sway: SwaySession, wayland: Wayland, gtk3: Driven) -> None:
    for turn in ("90", "180", "270", "flipped", "flipped-90", "flipped-180", "flipped-270", "normal"):
        subprocess.run(["swaymsg", "output", "HEADLESS-1", "transform", turn], env=sway.environ, check=True)
        shape = (1280, 1024, 3) if turn.endswith(("90", "270")) else (1024, 1280, 3)
        assert same(sway, wayland, "HEADLESS-1").shape == shape


def test_elements_are_where_they_are_clicked(wayland: Wayland, gtk3: Driven, gtk4: Driven) -> None:
    for driven in (gtk3, gtk4):
        window = window_of(wayland, driven)
        assert wayland.windows.activate(window.id)
        frame = placed(driven, role="button", name="Build")
        wayland.click(frame["x"] + 2, frame["y"] + 2)
        driven.wait(name="built")


def test_an_element_has_no_place_where_its_window_has_none(wayland: Wayland, gtk3: Driven) -> None:
    assert wayland.place(gtk3.pid, "GTK 3 sample") is not None
    assert wayland.place(1, "GTK 3 sample") is None


def into(wayland: Wayland, driven: Driven) -> None:
    """Put the keyboard into the empty field "Name"."""
    window = window_of(wayland, driven)
    assert wayland.windows.activate(window.id)
    entry = driven.ref(name="Name")
    driven.run(driven.session.set_value(entry, ""))
    assert driven.run(driven.session.focus(entry)).delivery == "delivered"


@pytest.mark.parametrize(
    "text", ["Hello, World! ~{}|", "straße ÀÉ €", "漢字かな交じり文", "emoji 😀🎉", typeable(60, 1)]
)
def test_any_text_is_typed_without_a_mistake(wayland: Wayland, gtk3: Driven, text: str) -> None:
    into(wayland, gtk3)
    wayland.type(text)
    assert gtk3.wait(name="Name", value=text)["value"] == text


@pytest.mark.full
@pytest.mark.parametrize("app", ["gtk3", "gtk4", "qt6"])
def test_sixty_random_characters_are_typed_twenty_times_without_a_mistake(
    sway: SwaySession, wayland: Wayland, sway_tree: Accessibility, app: str
) -> None:
    for driven in started(sway, sway_tree, app):
        for seed in range(20):
            into(wayland, driven)
            wayland.type(typeable(60, seed))
            driven.wait(name="Name", value=typeable(60, seed))


def test_a_chord_is_pressed_and_let_go(wayland: Wayland, gtk3: Driven) -> None:
    into(wayland, gtk3)
    wayland.type("old")
    wayland.key("ctrl+a")
    wayland.key("delete")
    gtk3.wait(name="Name", value="")
    wayland.keyboard.key_down("shift")
    wayland.key("a")
    gtk3.wait(name="Name", value="A")
    wayland.keyboard.release()
    wayland.type("a")
    gtk3.wait(name="Name", value="Aa")
    wayland.key("capslock")
    wayland.key("b")
    wayland.type("c")
    wayland.key("capslock")
    wayland.key("d")
    gtk3.wait(name="Name", value="AaBcd")


def test_the_wheel_turns_and_a_drag_drags(wayland: Wayland, gtk3: Driven) -> None:
    level, frame = gtk3.find(name="Level")[0], placed(gtk3, name="Level")
    gtk3.run(gtk3.session.set_value(level["ref"], 0))
    wayland.pointer.move(frame["x"] + frame["w"] / 2, frame["y"] + frame["h"] - 5)
    wayland.pointer.scroll(0, -3)
    # A notch is 15 of Wayland's units, of which GTK takes 10 for a step of 10 here.
    while gtk3.find(name="Level")[0]["value"] != 45:
        wayland.connection.roundtrip("waiting for the scale")
    gtk3.run(gtk3.session.set_value(gtk3.ref(name="Name"), "dragged over"))
    place = placed(gtk3, name="Name")
    middle = place["y"] + place["h"] / 2
    wayland.pointer.drag(place["x"] + 200, middle, place["x"] + 2, middle)
    wayland.key("delete")
    gtk3.wait(name="Name", value="")


@pytest.mark.parametrize("chord", ["", "nokey", "ctrl+nokey", "a+" * 9 + "a"])
def test_what_is_no_chord_is_refused(wayland: Wayland, chord: str) -> None:
    with pytest.raises(NotTypeableError):
        wayland.key(chord)


def test_what_is_no_place_or_no_character_is_refused(wayland: Wayland) -> None:
    with pytest.raises(WaylandError, match="5000,5 is on no display"):
        wayland.click(5000, 5)
    with pytest.raises(NotTypeableError, match=r"U\+0085"):
        wayland.type("abc\x85")


def own(windows: list[Window], title: str) -> Window:
    return next(window for window in windows if window.title == title)


def test_windows_are_listed_activated_moved_and_closed(wayland: Wayland, gtk3: Driven, gtk4: Driven) -> None:
    tiled, floating = window_of(wayland, gtk3), window_of(wayland, gtk4)
    assert (tiled.title, floating.title) == ("GTK 3 sample", "GTK 4 sample")
    assert wayland.windows.activate(tiled.id)
    assert own(wayland.windows.listed(), "GTK 3 sample").active
    with pytest.raises(NotOfferedError, match="is tiled"):
        wayland.windows.move(tiled.id, Area(0, 0, 0, 0))
    assert wayland.move_window(floating.id, Area(111, 222, 0, 0))
    moved = wayland.place(gtk4.pid, "GTK 4 sample")
    assert moved is not None
    assert (moved.x, moved.y) == (111, 222)
    assert placed(gtk4, role="button", name="Build")["x"] > 111
    assert wayland.move_window(floating.id, Area(111, 222, moved.w + 40, moved.h + 30))
    moved = wayland.place(gtk4.pid, "GTK 4 sample")
    picture = wayland.shot(window=floating.id).picture
    assert moved == Area(111, 222, picture.width, picture.height)
    assert wayland.windows.close(floating.id)
    with pytest.raises(WaylandError, match="there is no window"):
        wayland.windows.activate(floating.id)


def test_task_bars_windows_are_listed_activated_and_closed(
    wayland: Wayland, gtk3: Driven, gtk4: Driven
) -> None:
    window_of(wayland, gtk4)
    windows = Toplevels(wayland.connection, Seat(wayland.connection))
    listed = windows.listed()
    assert {"GTK 3 sample", "GTK 4 sample"} == {window.title for window in listed}
    first, second = own(listed, "GTK 3 sample"), own(listed, "GTK 4 sample")
    assert windows.activate(first.id)
    assert windows.activate(second.id)
    assert [window.title for window in windows.listed() if window.active] == ["GTK 4 sample"]
    with pytest.raises(NotOfferedError, match="lets nobody move windows"):
        windows.move(first.id, Area(1, 1, 0, 0))
    assert windows.close(second.id)
    assert [window.title for window in windows.listed()] == ["GTK 3 sample"]


def paste(sway: SwaySession) -> bytes:
    return subprocess.run(["wl-paste", "-n"], env=sway.environ, capture_output=True, check=True).stdout


def test_the_clipboard_is_shared_with_others(sway: SwaySession, wayland: Wayland) -> None:
    for text in ("naïve 漢字 😀", "x" * 300_000, ""):
        wayland.clipboard.set(text)
        assert wayland.clipboard.get() == text
        assert paste(sway) == text.encode()
    copy = sway.start(["wl-copy", "-f", "from another"])
    while wayland.clipboard.get() != "from another":
        wayland.connection.roundtrip("waiting for wl-copy")
    sway.end(copy)
    assert wayland.clipboard.get() == ""
    with pytest.raises(WaylandError, match="too many for the clipboard"):
        wayland.clipboard.set("x" * 1_048_577)


def test_a_lost_compositor_is_told(sway: SwaySession) -> None:
    with SwaySession() as other, Wayland(other.environ) as display:
        display.type("a")
        other.end(other.compositor)
        with pytest.raises(WaylandError, match="has ended"):
            display.shot()
    with pytest.raises(WaylandError, match="can't be reached"):
        Wayland({"WAYLAND_DISPLAY": "wayland-none", "XDG_RUNTIME_DIR": str(sway.folder)})
    with pytest.raises(WaylandError, match="WAYLAND_DISPLAY and XDG_RUNTIME_DIR"):
        Wayland({})
