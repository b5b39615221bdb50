"""What a probe finds, and the command lines made for it."""

from __future__ import annotations

import io
import shlex
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reflexarc.drivers.ssh.desktop import linux, macos
from reflexarc.drivers.ssh.desktop.probe import PROBE, Desktop, System, desktop_of
from reflexarc.drivers.ssh.desktop.screen import decoded
from reflexarc.machine.capabilities import Button, KeyEvent
from reflexarc.machine.keys import KEYS

LINUX = """system Linux
account 0
program import
program xdotool
active 2
session
DISPLAY=:1024
HOME=/var/lib/lightdm
XDG_SESSION_ID=1
session
DISPLAY=:1024
HOME=/var/lib/lightdm
XDG_SESSION_ID=1
session
DISPLAY=:0
WAYLAND_DISPLAY=wayland-0
XDG_RUNTIME_DIR=/run/user/1000
XAUTHORITY=/run/user/1000/xauth
XDG_SESSION_ID=2
"""
MAC = "system Darwin\naccount 0\nprogram screencapture\nprogram cliclick\nconsole 501 anna\n"
PROGRAMS = frozenset({"import", "xdotool", "cliclick"})
ON_X11 = Desktop(System.X11, PROGRAMS)
ON_WAYLAND = Desktop(System.WAYLAND, PROGRAMS | {"grim"})
ON_MAC = Desktop(System.MACOS, PROGRAMS, console=(501, "anna"))


def test_the_session_that_the_seat_shows_is_taken() -> None:
    found = desktop_of(LINUX)
    assert found == Desktop(
        System.WAYLAND,
        frozenset({"import", "xdotool"}),
        {
            "DISPLAY": ":0",
            "WAYLAND_DISPLAY": "wayland-0",
            "XAUTHORITY": "/run/user/1000/xauth",
            "XDG_RUNTIME_DIR": "/run/user/1000",
        },
    )


def test_the_session_that_is_named_is_taken() -> None:
    found = desktop_of(LINUX, ":1024")
    assert found is not None
    assert found.system is System.X11
    assert found.env == {"DISPLAY": ":1024", "XAUTHORITY": "/var/lib/lightdm/.Xauthority"}


def test_a_display_by_its_number_need_not_be_found() -> None:
    found = desktop_of("system Linux\n", ":7")
    assert found is not None
    assert found.env == {"DISPLAY": ":7"}
    assert desktop_of("system Linux\n") is None
    assert desktop_of(LINUX, "wayland-9") is None


def test_a_macs_desktop_is_that_of_the_account_at_its_screen() -> None:
    assert desktop_of(MAC) == Desktop(
        System.MACOS, frozenset({"screencapture", "cliclick"}), console=(501, "anna")
    )
    assert desktop_of(MAC.replace("501 anna", "0 root")) is None


@given(st.text())
def test_no_answer_breaks_it(said: str) -> None:
    desktop_of(said)
    desktop_of(LINUX + said)


def test_every_key_has_a_place() -> None:
    assert set(linux.CODES) == KEYS
    # Source: Linux, input-event-codes.h.
    known = {"esc": 1, "f10": 68, "kp_dot": 83, "less": 86, "delete": 111, "menu": 127, "f24": 194}
    assert {key: linux.CODES[key] for key in known} == known


@pytest.mark.parametrize("desktop", [ON_X11, ON_WAYLAND, ON_MAC])
def test_every_line_is_one_that_a_shell_reads(desktop: Desktop) -> None:
    lines = [PROBE, (macos if desktop.system is System.MACOS else linux).capture(desktop)]
    if desktop is ON_X11:
        lines += [linux.move(desktop, -1, 2), linux.scroll(desktop, 1, -1), linux.scroll(desktop, 0, 0)]
    for line in lines:
        subprocess.run(["sh", "-n", "-c", line], check=True)


def test_what_a_desktop_cannot_do_says_what_would_help() -> None:
    bare = Desktop(System.X11, frozenset())
    refused: list[tuple[Callable[[], str], str]] = [
        (lambda: linux.capture(bare), "install imagemagick or maim"),
        (lambda: linux.keys(bare, [KeyEvent("a", True)]), "install xdotool"),
        (lambda: linux.capture(Desktop(System.WAYLAND, frozenset())), "install grim"),
        (lambda: linux.move(ON_WAYLAND, 1, 1), "agent.pixels"),
        (
            lambda: macos.keys(Desktop(System.MACOS, frozenset()), [KeyEvent("a", True)]),
            "brew install cliclick",
        ),
        (lambda: macos.keys(ON_MAC, [KeyEvent("f20", True)]), "no key f20"),
        (lambda: macos.button(ON_MAC, Button.MIDDLE, down=True), "no middle button"),
        (lambda: macos.scroll(ON_MAC, 0, 1), "page_up"),
    ]
    for line, told in refused:
        with pytest.raises(ValueError, match=told):
            line()


def test_a_macs_programs_run_in_the_session_at_its_screen() -> None:
    chord = [
        KeyEvent("meta", True),
        KeyEvent("apostrophe", True),
        KeyEvent("apostrophe", False),
        KeyEvent("meta", False),
    ]
    session = ["launchctl", "asuser", "501", "sudo", "-n", "-u", "anna"]
    assert shlex.split(macos.keys(ON_MAC, chord)) == ["exec", *session, "cliclick", "kd:cmd", "t:'", "ku:cmd"]
    other = Desktop(System.MACOS, PROGRAMS, console=(501, "anna"), account=501)
    assert shlex.split(macos.move(other, 3.4, 5)) == ["exec", "sudo", "-n", *session, "cliclick", "m:3,5"]
    assert "screencapture -x -m -t png" in macos.capture(ON_MAC)


def png(dpi: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (3, 2), (1, 2, 3)).save(out, "PNG", **({"dpi": dpi} if dpi else {}))
    return out.getvalue()


def test_a_picture_is_decoded_with_the_pixels_of_a_point() -> None:
    pixels, scale = decoded(png())
    assert scale == 1
    assert np.array_equal(pixels, np.full((2, 3), 0x010203))
    assert decoded(png(dpi=(144, 144)))[1] == 2


def test_a_picture_that_is_none_is_refused() -> None:
    good = png()
    huge = good[:16] + struct.pack(">II", 1 << 15, 1 << 15) + good[24:]
    gif = io.BytesIO()
    Image.new("RGB", (3, 2)).save(gif, "GIF")
    for data in (b"", b"No protocol specified", huge, good[:40], gif.getvalue()):
        with pytest.raises(ValueError, match=r"PNG|screen|broken"):
            decoded(data)


@given(st.integers(0, 60), st.binary(min_size=1, max_size=8))
def test_a_spoilt_picture_is_read_or_refused(at: int, spoilt: bytes) -> None:
    data = png()
    with suppress(ValueError):
        decoded(data[:at] + spoilt + data[at + len(spoilt) :])
