"""`reflexarc-agent.pyz install`: has the agent started with every session of a user, or with every boot."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import List, Sequence

from reflexarc_agent.transports.chosen import any_chosen

_NAME = "reflexarc-agent"
_SERVICE = f"{_NAME}.service"
_UNIT = """\
[Unit]
Description=The reflexarc agent inside this guest
{unit}
[Service]
ExecStart={command}
Restart=always
RestartSec=2

[Install]
WantedBy={target}
"""
# Trying again goes on: what it waits for may be plugged in hours later.
_ENDLESSLY = "StartLimitIntervalSec=0\n"
_AUTOSTART = """\
[Desktop Entry]
Type=Application
Name=reflexarc agent
Comment=Starts the agent where no systemd does
Exec={command}
NoDisplay=true
X-GNOME-Autostart-enabled=true
"""
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Places:
    """Where the parts of an installation lie; `autostart` is a user's only."""

    archive: Path
    unit: Path
    wanted: Path
    autostart: "Path | None"
    systemctl: Sequence[str]

    @property
    def files(self) -> List[Path]:
        return [self.archive, self.unit, self.wanted, *([self.autostart] if self.autostart else [])]


def change(options: argparse.ArgumentParser, given: Sequence[str]) -> int:
    """Install or uninstall, as the first word says, with the agent's options in the rest; returns the exit code."""
    verb, parser = given[0], _parser(given[0])
    chosen, rest = parser.parse_known_args(given[1:])
    places = _system() if chosen.system else _user()
    try:
        if verb == "uninstall":
            _uninstall(places)
        else:
            if chosen.system and not chosen.desktop:
                rest = [*rest, "--headless"]
            _check(options, rest)
            _install(places, rest, "multi-user.target" if chosen.system else "default.target")
    except OSError as error:
        print(f"{_NAME}: can't {verb}: {error}", file=sys.stderr)
        return 1
    return 0


def autostart() -> bool:
    """Have systemd run the installed agent of this user, and tell whether it does."""
    return _systemctl(["systemctl", "--user"], "start", _SERVICE)


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{_NAME}.pyz {verb}",
        epilog="All other options are the agent's own, see --help without a command.",
    )
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--user", action="store_true", help="for this user's sessions, with the desktop")
    whose.add_argument(
        "--system", action="store_true", help="for every boot, as root: commands and files only"
    )
    if verb == "install":
        parser.add_argument(
            "--desktop",
            action="store_true",
            help="with --system: serve the desktop of the user at the screen too",
        )
    return parser


def _check(options: argparse.ArgumentParser, rest: Sequence[str]) -> None:
    """End the program where the agent would not start with these options."""
    chosen = options.parse_args(rest)
    if chosen.stdio:
        options.error("--stdio is for the host that starts the agent itself")
    if not any_chosen(chosen):
        options.error("name how hosts reach the agent, as --vsock")
    for path in (*chosen.unix, chosen.token_file, chosen.tls_cert, chosen.tls_key):
        if path and not path.startswith("/"):
            options.error(f"{path!r} must be an absolute path")


def _user() -> Places:
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    units = config / "systemd/user"
    return Places(
        data / "reflexarc" / f"{_NAME}.pyz",
        units / _SERVICE,
        units / "default.target.wants" / _SERVICE,
        config / "autostart" / f"{_NAME}.desktop",
        ("systemctl", "--user"),
    )


def _system(root: Path = Path("/")) -> Places:
    units = root / "etc/systemd/system"
    return Places(
        root / "usr/local/lib/reflexarc" / f"{_NAME}.pyz",
        units / _SERVICE,
        units / "multi-user.target.wants" / _SERVICE,
        None,
        ("systemctl",),
    )


def _install(places: Places, rest: Sequence[str], target: str) -> None:
    source = Path(sys.argv[0])
    if not zipfile.is_zipfile(source):
        raise OSError("only the agent as one file can install itself: build it with `reflexarc agent build`")
    for path in places.files:
        path.parent.mkdir(parents=True, exist_ok=True)
    if source.resolve() != places.archive.resolve():
        part = places.archive.with_name(f".{places.archive.name}.part")
        shutil.copyfile(source, part)
        part.chmod(0o755)
        os.replace(part, places.archive)
    command = [sys.executable, str(places.archive), *rest]
    places.unit.write_text(unit(command, target), "utf-8")
    places.wanted.unlink(missing_ok=True)
    places.wanted.symlink_to(f"../{_SERVICE}")
    if places.autostart:
        entry = desktop_entry([sys.executable, str(places.archive), "autostart", *rest])
        places.autostart.write_text(entry, "utf-8")
    for path in places.files:
        print(path)
    if _systemctl(places.systemctl, "daemon-reload") and _systemctl(places.systemctl, "restart", _SERVICE):
        print("started")
    else:
        print("not started: no systemd answers here; it starts with the next session or boot")


def _uninstall(places: Places) -> None:
    _systemctl(places.systemctl, "stop", _SERVICE)
    for path in places.files:
        if path.is_symlink() or path.exists():
            path.unlink()
            print(f"removed {path}")
    _systemctl(places.systemctl, "daemon-reload")


def unit(command: Sequence[str], target: str) -> str:
    """Write the unit. Source: systemd.service(5), "Command lines"; systemd.syntax(7), "Quoting"."""
    return _UNIT.format(command=" ".join(map(_systemd_word, command)), target=target, unit=_ENDLESSLY)


def _systemd_word(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def desktop_entry(command: Sequence[str]) -> str:
    """Write the autostart entry. Source: Desktop Entry Specification, "The Exec key": quoted, then escaped again."""
    return _AUTOSTART.format(command=" ".join(map(_entry_word, command)))


def _entry_word(word: str) -> str:
    for special in '\\"`$':
        word = word.replace(special, "\\" + special)
    return '"' + word.replace("\\", "\\\\").replace("%", "%%") + '"'


def _systemctl(command: Sequence[str], *arguments: str) -> bool:
    try:
        found = subprocess.run([*command, *arguments], capture_output=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0
