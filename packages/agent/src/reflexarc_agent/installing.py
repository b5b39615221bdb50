"""`reflexarc-agent.pyz install`: has the agent started with every session of a user, or with every boot."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import List, Sequence

from reflexarc_agent.running import SERVICE, Background, Systemd, ancestors
from reflexarc_agent.transports.chosen import any_chosen

_NAME = "reflexarc-agent"
_UNIT = """\
[Unit]
Description=The reflexarc agent inside this guest
{unit}
[Service]
ExecStart={command}
Type=notify
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
# For what was said to reach the host, where the one that says it is to be started anew.
_PAUSE = 2.0


@dataclass(frozen=True)
class Places:
    """Where the parts of an installation lie; `autostart` is a user's only."""

    archive: Path
    unit: Path
    wanted: Path
    autostart: "Path | None"
    manager: Sequence[str]

    @property
    def files(self) -> List[Path]:
        return [self.archive, self.unit, self.wanted, *([self.autostart] if self.autostart else [])]

    @property
    def systemd(self) -> Systemd:
        return Systemd(self.manager)

    @property
    def background(self) -> Background:
        return Background(self.archive)

    def runner(self) -> "Systemd | Background":
        """Who runs the agent here."""
        systemd = self.systemd
        return systemd if systemd.reload() else self.background


def change(options: argparse.ArgumentParser, given: Sequence[str]) -> int:
    """Do what the first word says, with the agent's options in the rest; returns the exit code."""
    verb, parser = given[0], _parser(given[0])
    chosen, rest = parser.parse_known_args(given[1:])
    places = _system() if chosen.system else _user()
    if verb in ("install", "start"):
        if chosen.system and not chosen.desktop:
            rest = [*rest, "--headless"]
        _check(options, rest)
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return _VERBS[verb](places, chosen, rest)
    except OSError as error:
        print(f"{_NAME}: can't {verb}: {error}", file=sys.stderr)
        return 1


def autostart() -> bool:
    """Have systemd run the installed agent of this user, and tell whether it does."""
    systemd = _user().systemd
    with suppress(OSError):
        if systemd.pid() is None:
            systemd.start()
        return True
    return False


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
    if verb in ("install", "start"):
        parser.add_argument(
            "--desktop",
            action="store_true",
            help="with --system: serve the desktop of the user at the screen too",
        )
        parser.add_argument("--pause", action="store_true", help=argparse.SUPPRESS)
        parser.add_argument(
            "--start", action="store_true", help="start it now, too, where no systemd answers that would"
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
        units / SERVICE,
        units / "default.target.wants" / SERVICE,
        config / "autostart" / f"{_NAME}.desktop",
        ("systemctl", "--user"),
    )


def _system(root: Path = Path("/")) -> Places:
    units = root / "etc/systemd/system"
    return Places(
        root / "usr/local/lib/reflexarc" / f"{_NAME}.pyz",
        units / SERVICE,
        units / "multi-user.target.wants" / SERVICE,
        None,
        ("systemctl",),
    )


def _install(places: Places, chosen: argparse.Namespace, rest: Sequence[str]) -> int:
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
    target = "multi-user.target" if chosen.system else "default.target"
    places.unit.write_text(unit(command, target), "utf-8")
    places.wanted.unlink(missing_ok=True)
    places.wanted.symlink_to(f"../{SERVICE}")
    if places.autostart:
        entry = desktop_entry([sys.executable, str(places.archive), "autostart", *rest])
        places.autostart.write_text(entry, "utf-8")
    for path in places.files:
        print(path, flush=True)
    runner = places.runner()
    if isinstance(runner, Background) and not chosen.start:
        print("not started: no systemd answers here; it starts with the next session or boot")
    elif (before := runner.pid()) is not None and before in ancestors():
        # To end it would end this program, too, before anybody heard of it.
        words = [word for word in sys.argv[2:] if word != "--start"]
        subprocess.Popen(
            [sys.executable, str(places.archive), "start", "--pause", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        print(f"starting anew {before} by {runner.name}")
    else:
        _start(places, chosen, rest)
    return 0


def _start(places: Places, chosen: argparse.Namespace, rest: Sequence[str]) -> int:
    if getattr(chosen, "pause", False):
        time.sleep(_PAUSE)
    runner = places.runner()
    if isinstance(runner, Systemd):
        places.background.end()
    runner.start(rest)
    print(f"started by {runner.name}")
    return 0


def _status(places: Places, chosen: argparse.Namespace, rest: Sequence[str]) -> int:
    pid = places.systemd.pid() or places.background.pid()
    print("stopped" if pid is None else f"running {pid}")
    return int(pid is None)


def _uninstall(places: Places, chosen: argparse.Namespace, rest: Sequence[str]) -> int:
    for path in places.files:
        if path.is_symlink() or path.exists():
            path.unlink()
            print(f"removed {path}", flush=True)
    systemd = places.systemd
    # At last: this program may be a command of the agent that is ended.
    systemd.reload()
    systemd.end()
    places.background.end()
    places.background.forget()
    return 0


_VERBS = {"install": _install, "start": _start, "status": _status, "uninstall": _uninstall}


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
