"""Command lines that see and drive a Linux desktop; ValueError says what can't be done, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflexarc.drivers.ssh.desktop.probe import Desktop, System
from reflexarc.machine.capabilities import Button, KeyEvent

OUTSIDE = 9
MAX_LINES = 100

# Keys by their place on the board. Source: Linux, input-event-codes.h; an X server's codes are 8 higher.
_OFFSET = 8
_ROWS = {
    1: "esc 1 2 3 4 5 6 7 8 9 0 minus equal backspace tab q w e r t y u i o p bracket_left bracket_right enter ctrl "
    "a s d f g h j k l semicolon apostrophe grave shift backslash z x c v b n m comma dot slash shift_r kp_multiply "
    "alt space caps_lock f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 num_lock scroll_lock kp_7 kp_8 kp_9 kp_subtract kp_4 kp_5 "
    "kp_6 kp_add kp_1 kp_2 kp_3 kp_0 kp_dot",
    86: "less f11 f12",
    96: "kp_enter ctrl_r kp_divide print alt_r",
    102: "home up page_up left right end down page_down insert delete",
    116: "power",
    119: "pause",
    125: "meta meta_r menu",
    142: "sleep wake",
    183: "f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24",
}
CODES: Mapping[str, int] = {
    **{key: first + place for first, row in _ROWS.items() for place, key in enumerate(row.split())},
    "sysrq": 99,
}

_BUTTONS = {Button.LEFT: 1, Button.MIDDLE: 2, Button.RIGHT: 3}


def capture(desktop: Desktop) -> str:
    """Write the screen as PNG."""
    if desktop.system is System.WAYLAND:
        if "grim" in desktop.programs:
            return "exec grim -t png -"
        raise ValueError("to capture a Wayland desktop of the wlroots kind install grim in it")
    for program, line in (
        ("import", "exec import -silent -window root -depth 8 -quality 15 png:-"),
        ("magick", "exec magick import -silent -window root -depth 8 -quality 15 png:-"),
        ("maim", "exec maim --format=png"),
    ):
        if program in desktop.programs:
            return line
    raise ValueError("to capture its X11 desktop install imagemagick or maim in it")


def keys(desktop: Desktop, events: Sequence[KeyEvent]) -> str:
    """Move keys."""
    _need_xdotool(desktop)
    # A code has three digits: xdotool takes a single one for a character.
    moves = (
        f"{'keydown' if event.down else 'keyup'} --delay 0 {CODES[event.key] + _OFFSET:03d}"
        for event in events
    )
    return f"exec xdotool {' '.join(moves)}"


def move(desktop: Desktop, x: int, y: int) -> str:
    """Move the pointer; ends with the status OUTSIDE where that is not on the screen."""
    _need_xdotool(desktop)
    return (
        f'set -- $(xdotool getdisplaygeometry) && [ -n "$2" ] || exit 1; '
        f'[ {x:d} -ge 0 ] && [ {y:d} -ge 0 ] && [ {x:d} -lt "$1" ] && [ {y:d} -lt "$2" ] || exit {OUTSIDE}; '
        f"exec xdotool mousemove {x:d} {y:d}"
    )


def button(desktop: Desktop, pressed: Button, *, down: bool) -> str:
    """Press a button or let it go."""
    _need_xdotool(desktop)
    return f"exec xdotool {'mousedown' if down else 'mouseup'} {_BUTTONS[pressed]}"


def scroll(desktop: Desktop, dx: int, dy: int) -> str:
    """Turn the wheel, which is buttons 4 to 7 of an X server."""
    _need_xdotool(desktop)
    if max(abs(dx), abs(dy)) > MAX_LINES:
        raise ValueError(f"at most {MAX_LINES} lines are scrolled at once")
    turns = [(abs(dy), 5 if dy > 0 else 4), (abs(dx), 7 if dx > 0 else 6)]
    clicks = (f"click --repeat {times} --delay 2 {number}" for times, number in turns if times)
    return f"exec xdotool {' '.join(clicks)}" if dx or dy else "true"


def _need_xdotool(desktop: Desktop) -> None:
    if desktop.system is System.WAYLAND:
        raise ValueError(
            "a Wayland desktop takes no keys and no pointer over SSH; use the agent (agent.pixels = true), or the "
            "keyboard and pointer of the machine itself"
        )
    if "xdotool" not in desktop.programs:
        raise ValueError("to drive its X11 desktop install xdotool in it")
