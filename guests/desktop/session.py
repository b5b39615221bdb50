"""A desktop session of its own: an X server in memory, a session bus, the accessibility bus, a window manager.

Packages: xvfb, dbus, at-spi2-core, openbox; for the applications see `APPS`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

APPS = Path(__file__).parent / "apps"
LAUNCHER = "/usr/libexec/at-spi-bus-launcher"
SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's own Python, which has the bindings of the toolkits."""

PACKAGES = {"Xvfb": "xvfb", "dbus-daemon": "dbus", LAUNCHER: "at-spi2-core", "openbox": "openbox"}


class DesktopSession:
    """A desktop session; a context manager that ends everything it has started."""

    packages: Mapping[str, str] = PACKAGES

    def __init__(self, width: int = 1280, height: int = 1024) -> None:
        self._size = f"{width}x{height}x24"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="reflexarc-desktop-"))
        self.environ: dict[str, str] = {}
        self.logs: dict[int, Path] = {}
        self._started = 0

    def __enter__(self) -> Self:
        missing = [package for program, package in self.packages.items() if not shutil.which(program)]
        if missing:
            raise RuntimeError(f"install {' '.join(missing)}")
        try:
            self._start_session()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_session(self) -> None:
        runtime = self.folder / "run"
        runtime.mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        self.environ = {
            **kept,
            "HOME": str(self.folder),
            "XDG_RUNTIME_DIR": str(runtime),
            "LANG": "C.UTF-8",
            "GSK_RENDERER": "cairo",
            "GTK_A11Y": "atspi",
            "LIBGL_ALWAYS_SOFTWARE": "1",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }
        self._start_display(runtime)
        self.environ["DBUS_SESSION_BUS_ADDRESS"] = self._told(
            ["dbus-daemon", "--session", "--nofork", "--print-address={fd}"]
        )
        self._start_windows()
        self._start_accessibility()

    def _start_display(self, runtime: Path) -> None:
        """Start what shows pictures, and say in `environ` where it is."""
        number = self._told(["Xvfb", "-displayfd", "{fd}", "-screen", "0", self._size, "-nolisten", "tcp"])
        self.environ.update(DISPLAY=f":{number}", GDK_BACKEND="x11", QT_QPA_PLATFORM="xcb")

    def _start_windows(self) -> None:
        """Start what arranges windows."""
        self.start(["openbox"])

    def _start_accessibility(self) -> None:
        """Start what applications tell of themselves over."""
        self.start([LAUNCHER, "--launch-immediately"])

    def _told(self, command: Sequence[str]) -> str:
        """Start a server and read the line that it says when it is ready, on the descriptor `{fd}`."""
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        self.start([part.replace("{fd}", str(writer)) for part in command], pass_fds=(writer,))
        os.close(writer)
        with os.fdopen(reader) as told:
            line = told.readline().strip()
        if not line:
            raise RuntimeError(f"{command[0]} did not start: see {self.folder}")
        return line

    def start(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None, pass_fds: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a program in the session, in a process group of its own."""
        self._started += 1
        path = self.folder / f"{self._started}-{Path(command[0]).name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                list(command),
                env={**self.environ, **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        self._processes.append(process)
        self.logs[process.pid] = path
        return process

    def app(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one of the applications in `apps`."""
        python, extra = SYSTEM_PYTHON, {}
        if name in ("endless", "slow"):
            python, extra = sys.executable, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return self.start([python, str(APPS / f"{name}.py"), *arguments], extra)

    def chromium(self, page: Path) -> subprocess.Popen[bytes]:
        """Start Chromium with a page."""
        profile = self.folder / "chromium"
        switches = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        if "WAYLAND_DISPLAY" in self.environ:
            switches.append("--ozone-platform=wayland")
        return self.start(["chromium", *switches, f"--user-data-dir={profile}", page.as_uri()])

    def firefox(self, page: Path) -> subprocess.Popen[bytes]:
        """Start Firefox with a page, and nothing that it would like to say on its first start."""
        profile = self.folder / f"firefox-{self._started}"
        profile.mkdir()
        quiet = {
            "browser.aboutwelcome.enabled": "false",
            "browser.shell.checkDefaultBrowser": "false",
            "datareporting.policy.dataSubmissionEnabled": "false",
            "datareporting.policy.firstRunURL": '""',
            "startup.homepage_welcome_url": '""',
            "termsofuse.bypassNotification": "true",
            "toolkit.telemetry.reportingpolicy.firstRun": "false",
            "app.normandy.enabled": "false",
            "network.captive-portal-service.enabled": "false",
            "network.connectivity-service.enabled": "false",
        }
        lines = "".join(f'user_pref("{name}", {value});\n' for name, value in quiet.items())
        (profile / "user.js").write_text(lines)
        switches = ["--no-remote", "--new-instance", "--profile", str(profile)]
        extra = {"GNOME_ACCESSIBILITY": "1", "MOZ_ENABLE_WAYLAND": "0", "MOZ_CRASHREPORTER_DISABLE": "1"}
        return self.start(["firefox-esr", *switches, page.as_uri()], extra)

    def program(self, name: str) -> subprocess.Popen[bytes]:
        """The program of the session with that file name."""
        return next(p for p in self._processes if Path(str(p.args[0])).name == name)  # type: ignore[index]

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a program and what it has started."""
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(0.05 if number == signal.SIGCONT else 3)
            except subprocess.TimeoutExpired:
                continue
        process.wait()
        if process in self._processes:
            self._processes.remove(process)

    def close(self) -> None:
        """End everything, the last started first."""
        for process in reversed(self._processes.copy()):
            self.end(process)
        shutil.rmtree(self.folder, ignore_errors=True)
