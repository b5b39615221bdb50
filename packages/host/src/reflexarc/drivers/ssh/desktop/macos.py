"""Command lines that see and drive a Mac's desktop; ValueError says what can't be done, and what to do.

Programs that come over SSH are outside of the desktop's session: `launchctl asuser` has them run inside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from reflexarc.drivers.ssh.desktop.probe import Desktop
from reflexarc.machine.capabilities import Button, KeyEvent

# cliclick's names. Source: its manual, commands kd, ku, kp and t.
_MODIFIERS = {
    "ctrl": "ctrl", "ctrl_r": "ctrl", "alt": "alt", "alt_r": "alt", "shift": "shift", "shift_r": "shift",
    "meta": "cmd", "meta_r": "cmd",
}  # fmt: skip
_NAMED = {
    "enter": "return", "esc": "esc", "tab": "tab", "space": "space", "backspace": "delete", "delete": "fwd-delete",
    "home": "home", "end": "end", "page_up": "page-up", "page_down": "page-down", "up": "arrow-up",
    "down": "arrow-down", "left": "arrow-left", "right": "arrow-right", "kp_enter": "num-enter",
    "kp_add": "num-plus", "kp_subtract": "num-minus", "kp_multiply": "num-multiply", "kp_divide": "num-divide",
    **{f"f{number}": f"f{number}" for number in range(1, 17)},
    **{f"kp_{number}": f"num-{number}" for number in range(10)},
}  # fmt: skip
_CHARACTERS = {
    "minus": "-", "equal": "=", "bracket_left": "[", "bracket_right": "]", "backslash": "\\", "semicolon": ";",
    "apostrophe": "'", "grave": "`", "comma": ",", "dot": ".", "slash": "/",
    **{character: character for character in "abcdefghijklmnopqrstuvwxyz0123456789"},
}  # fmt: skip


def capture(desktop: Desktop) -> str:
    """Write the main screen as PNG, by way of a file: screencapture writes to nothing else."""
    take = _inside(desktop, "screencapture", "-x", "-m", "-t", "png")
    # The session's account writes into it, whoever makes the folder.
    return (
        "folder=$(mktemp -d /tmp/reflexarc.XXXXXXXX) || exit; trap 'rm -rf \"$folder\"' EXIT; "
        f'chown {desktop.console[0]} "$folder"; {take} "$folder/screen.png" && cat "$folder/screen.png"'
    )


def keys(desktop: Desktop, events: Sequence[KeyEvent]) -> str:
    """Move keys; cliclick holds modifiers only, any other key is tapped as it goes down."""
    commands = [command for event in events if (command := _key(event))]
    return _cliclick(desktop, *commands) if commands else "true"


def move(desktop: Desktop, x: float, y: float) -> str:
    """Move the pointer; x and y are points, of which a Retina screen has several pixels."""
    return _cliclick(desktop, f"m:{round(x)},{round(y)}")


def button(desktop: Desktop, pressed: Button, *, down: bool) -> str:
    """Press a button or let it go; the right one is clicked as it goes down."""
    if pressed is Button.LEFT:
        return _cliclick(desktop, "dd:." if down else "du:.")
    if pressed is Button.RIGHT:
        return _cliclick(desktop, "rc:.") if down else "true"
    raise ValueError("cliclick knows no middle button")


def scroll(desktop: Desktop, dx: int, dy: int) -> str:
    """Raises ValueError."""
    raise ValueError("cliclick turns no wheel; use the keys page_up and page_down, or the agent")


def _key(event: KeyEvent) -> str | None:
    if event.key in _MODIFIERS:
        return f"{'kd' if event.down else 'ku'}:{_MODIFIERS[event.key]}"
    if not event.down:
        return None
    if event.key in _NAMED:
        return f"kp:{_NAMED[event.key]}"
    if event.key in _CHARACTERS:
        return f"t:{_CHARACTERS[event.key]}"
    raise ValueError(f"cliclick has no key {event.key}")


def _cliclick(desktop: Desktop, *commands: str) -> str:
    if "cliclick" not in desktop.programs:
        raise ValueError("to drive a Mac's desktop install cliclick on it (`brew install cliclick`)")
    return f"exec {_inside(desktop, 'cliclick', *commands)}"


def _inside(desktop: Desktop, *argv: str) -> str:
    """Run a program in the session of the account at the screen, which takes root's rights."""
    number, name = desktop.console
    as_root = ("sudo", "-n") if desktop.account else ()
    words = (*as_root, "launchctl", "asuser", str(number), "sudo", "-n", "-u", name, *argv)
    return " ".join(map(quote, words))
