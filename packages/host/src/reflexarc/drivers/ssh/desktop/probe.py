"""Which desktop a guest has, and by what programs it is seen and driven: one script, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_SESSIONS = 60
_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "HOME")

# Programs of Homebrew are not on the path of those who come over SSH.
PATH = "PATH=$PATH:/usr/local/bin:/opt/homebrew/bin"

# A session's processes know it, whoever asks: an account its own ones, root all.
PROBE = f"""{PATH}
echo "system $(uname -s)"
echo "account $(id -u)"
for name in import magick maim grim xdotool screencapture cliclick; do
  if command -v "$name" >/dev/null 2>&1; then echo "program $name"; fi
done
if [ "$(uname -s)" = Darwin ]; then
  echo "console $(stat -f '%u %Su' /dev/console)"
  exit
fi
echo "active $(loginctl show-seat seat0 -p ActiveSession --value 2>/dev/null)"
LC_ALL=C grep -alE '(^|[^_])DISPLAY=:|WAYLAND_DISPLAY=.' /proc/[0-9]*/environ 2>/dev/null |
tail -n {MAX_SESSIONS} | while read -r file; do
  echo session
  tr '\\0' '\\n' 2>/dev/null <"$file" | LC_ALL=C grep -aE '^({"|".join(_VARIABLES)})='
done
true"""


class System(StrEnum):
    """What draws the desktop."""

    X11 = "X11"
    WAYLAND = "Wayland"
    MACOS = "macOS"


@dataclass(frozen=True)
class Desktop:
    """A desktop session that was found.

    env: the variables by which programs reach it. console: number and name of the account at the screen of a Mac.
    account: the number of the account that asks.
    """

    system: System
    programs: frozenset[str]
    env: Mapping[str, str] = field(default_factory=dict)
    console: tuple[int, str] = (0, "")
    account: int = 0


def desktop_of(said: str, wanted: str = "") -> Desktop | None:
    """The desktop that the probe found, `wanted` where there are several; None where nobody is logged in.

    Else it is the one that the seat shows, or the one with the most processes.
    """
    facts = [line.partition(" ")[::2] for line in said.partition("\nsession\n")[0].splitlines()]
    known = dict(facts)
    programs = frozenset(value for name, value in facts if name == "program")
    account = _number(known.get("account", ""))
    if known.get("system") == "Darwin":
        number, _, name = known.get("console", "").partition(" ")
        # The screen is root's while it shows the window for logging in.
        found = (_number(number), name)
        return Desktop(System.MACOS, programs, console=found, account=account) if found[0] else None
    env = _session(said, known.get("active", ""), wanted)
    if env is None:
        return None
    is_wayland = "WAYLAND_DISPLAY" in env and not wanted.startswith(":")
    return Desktop(System.WAYLAND if is_wayland else System.X11, programs, env, account=account)


def _session(said: str, active: str, wanted: str) -> Mapping[str, str] | None:
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for block in said.split("\nsession\n")[1:]:
        lines = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        session = {name: lines[name] for name in _VARIABLES if lines.get(name)}
        if wanted and wanted not in (session.get("DISPLAY"), session.get("WAYLAND_DISPLAY")):
            continue
        is_active = bool(active) and session.get("XDG_SESSION_ID") == active
        found[_reached(session)] += 1 + is_active * MAX_SESSIONS
    if found:
        return dict(found.most_common(1)[0][0])
    return {"DISPLAY": wanted} if wanted.startswith(":") else None


def _reached(session: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What programs need of a session; an X server's key is in the home folder where nothing else is said."""
    env = {name: session[name] for name in _VARIABLES[:4] if name in session}
    if "DISPLAY" in env and "XAUTHORITY" not in env and "HOME" in session:
        env["XAUTHORITY"] = f"{session['HOME']}/.Xauthority"
    return tuple(sorted(env.items()))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 12 else 0
