"""The desktop session of this guest, found by what its processes were started with."""

from __future__ import annotations

import os
import pwd
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, MutableMapping, NamedTuple, Optional, Tuple

_DISPLAYS = ("WAYLAND_DISPLAY", "DISPLAY")
_NAMES = (
    *_DISPLAYS,
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "AT_SPI_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
    "XDG_CURRENT_DESKTOP",
)
_ENVIRON_BYTES = 1 << 18
_VALUE_CHARACTERS = 1024
_LOOK = 1.0
_LOGINCTL_TIMEOUT = 2.0


class Login(NamedTuple):
    """A user's desktop session: what its programs have in their environment, of `_NAMES`."""

    uid: int
    values: Mapping[str, str]

    @property
    def alive(self) -> bool:
        """Whether one of its displays is still there."""
        return any(path.exists() for path in _sockets(self.values))


class SessionEnvironment(Mapping[str, str]):
    """An environment, and where it names no display what is in that of the desktop session there is.

    Sessions come and go: each look-up takes the one of now. Root takes the one of the user at the screen, any other
    user only an own one. Commands and libraries are to find it too, so of an own session `environ` is told.
    """

    def __init__(self, environ: MutableMapping[str, str], proc: Path = Path("/proc")) -> None:
        self._environ = environ
        self._proc = proc
        self._given = dict(environ)
        self._lock = threading.Lock()
        self._login: Optional[Login] = None
        self._looked = -_LOOK

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def _now(self) -> Dict[str, str]:
        if any(self._given.get(name) for name in _DISPLAYS):
            return self._given
        with self._lock:
            lost = self._login is None or not self._login.alive
            if lost and time.monotonic() - self._looked >= _LOOK:
                self._looked = time.monotonic()
                self._change(find_login(self._proc))
            found = {} if self._login is None else self._login.values
        return {**self._given, **found}

    def _change(self, login: Optional[Login]) -> None:
        told = _told(self._login)
        for name in told.keys() - self._given.keys():
            self._environ.pop(name, None)
        self._environ.update({name: value for name, value in self._given.items() if name in told})
        self._login = login
        self._environ.update(_told(login))


def _told(login: Optional[Login]) -> Dict[str, str]:
    if login is None:
        return {}
    own = login.uid == os.geteuid()
    # Xlib looks for the key to a display in the process's own environment.
    return {name: value for name, value in login.values.items() if own or name == "XAUTHORITY"}


def find_login(proc: Path) -> Optional[Login]:
    """The session this process may use; None where there is none, or root can't tell which of several is meant."""
    mine = os.geteuid()
    found = [(uid, values) for uid, values in _environments(proc) if mine in (0, uid)]
    uids = {uid for uid, _ in found}
    uid = next(iter(uids)) if len(uids) == 1 else _chosen(uids, mine)
    return None if uid is None else _most_common(uid, [values for whose, values in found if whose == uid])


def _chosen(uids: "set[int]", mine: int) -> Optional[int]:
    if not uids:
        return None
    active = _at_the_screen()
    if active in uids:
        return active
    return mine if mine in uids else None


def _most_common(uid: int, found: List[Dict[str, str]]) -> Login:
    """Of several displays of a user that of the most programs; of those the one that tells most."""
    counted = Counter(_display(values) for values in found)
    display = max(counted, key=lambda each: counted[each])
    values: Dict[str, str] = {}
    for each in found:
        if _display(each) == display and len(each) > len(values):
            values = dict(each)
    bus = Path(f"/run/user/{uid}/bus")
    if "DBUS_SESSION_BUS_ADDRESS" not in values and bus.exists():
        values["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"
    if "XAUTHORITY" not in values:
        with suppress(KeyError):
            key = Path(pwd.getpwuid(uid).pw_dir, ".Xauthority")
            values.update({"XAUTHORITY": str(key)} if key.exists() else {})
    return Login(uid, values)


def _display(values: Mapping[str, str]) -> Tuple[str, ...]:
    return tuple(values.get(name, "") for name in _DISPLAYS)


def _environments(proc: Path) -> Iterator[Tuple[int, Dict[str, str]]]:
    """The environments of all processes that have a display which is there, with the process's uid."""
    for folder in proc.glob("[0-9]*"):
        try:
            uid = folder.stat().st_uid
            with open(folder / "environ", "rb") as file:
                content = file.read(_ENVIRON_BYTES)
        except OSError:
            continue
        values = _wanted(content)
        if any(path.exists() for path in _sockets(values)):
            yield uid, values


def _wanted(content: bytes) -> Dict[str, str]:
    pairs = (entry.partition("=")[::2] for entry in content.decode("utf-8", "replace").split("\0"))
    return {name: value for name, value in pairs if name in _NAMES and 0 < len(value) < _VALUE_CHARACTERS}


def _sockets(values: Mapping[str, str]) -> Iterator[Path]:
    """Where the displays of an environment listen; one that SSH brings in isn't this guest's."""
    wayland = values.get("WAYLAND_DISPLAY")
    if wayland and (values.get("XDG_RUNTIME_DIR") or wayland.startswith("/")):
        yield Path(values.get("XDG_RUNTIME_DIR", "/"), wayland)
    host, _, number = values.get("DISPLAY", "").rpartition(":")
    number = number.partition(".")[0]
    if host in ("", "unix") and number.isascii() and number.isdigit():
        yield Path(f"/tmp/.X11-unix/X{number}")  # noqa: S108


def _at_the_screen() -> Optional[int]:
    """The uid whose session the seat shows; None where nothing tells.

    Source: loginctl(1), `show-seat`, `show-session`.
    """
    session = _loginctl("show-seat", "seat0", "-p", "ActiveSession", "--value")
    uid = _loginctl("show-session", session, "-p", "User", "--value") if session else ""
    return int(uid) if uid.isascii() and uid.isdigit() else None


def _loginctl(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["loginctl", *arguments],
            capture_output=True,
            text=True,
            timeout=_LOGINCTL_TIMEOUT,
            check=False,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
