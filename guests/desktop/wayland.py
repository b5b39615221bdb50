"""Desktop sessions on Wayland without a screen: sway, which lets its clients see and type, and weston, which doesn't.

Packages: sway, weston, dbus, at-spi2-core.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from guests.desktop.session import LAUNCHER, DesktopSession

NOBODY = 65534
PATIENCE = 20.0
ACCESSIBLE = {"dbus-daemon": "dbus", LAUNCHER: "at-spi2-core"}


class SwaySession(DesktopSession):
    """A session under sway; `outputs` are its outputs' settings as sway's configuration has them."""

    packages = MappingProxyType({"sway": "sway", **ACCESSIBLE})

    def __init__(self, outputs: Sequence[str] = ("resolution 1280x1024",), extra: str = "") -> None:
        super().__init__()
        self._outputs = outputs
        self._extra = extra

    def _start_display(self, runtime: Path) -> None:
        config = self.folder / "sway.conf"
        outputs = "\n".join(f"output HEADLESS-{at} {told}" for at, told in enumerate(self._outputs, 1))
        command = ["sway", "-c", str(config)]
        if os.getuid() == 0:
            # Sway refuses to be root.
            self.folder.chmod(0o711)
            os.chown(runtime, NOBODY, NOBODY)
            command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        config.write_text(
            f"{outputs}\nxwayland disable\n{self._extra}\n"
            # Not sh: Debian's takes no descriptor of two digits.
            f"exec bash -c 'echo $WAYLAND_DISPLAY $SWAYSOCK >&{writer}'\n"
        )
        headless = {
            "WLR_BACKENDS": "headless",
            "WLR_LIBINPUT_NO_DEVICES": "1",
            "WLR_RENDERER": "pixman",
            "WLR_HEADLESS_OUTPUTS": str(len(self._outputs)),
        }
        self.compositor = self.start(command, headless, pass_fds=(writer,))
        os.close(writer)
        with os.fdopen(reader) as told:
            names = told.readline().split()
        if len(names) != 2:
            raise RuntimeError(f"sway did not start: see {self.folder}")
        self.environ.update(
            WAYLAND_DISPLAY=names[0], SWAYSOCK=names[1], GDK_BACKEND="wayland", QT_QPA_PLATFORM="wayland"
        )

    def _start_windows(self) -> None:
        """Nothing: sway arranges its windows itself."""


class WestonSession(DesktopSession):
    """A session under weston, whose clients can neither see the screen nor type."""

    packages = MappingProxyType({"weston": "weston", **ACCESSIBLE})

    def _start_display(self, runtime: Path) -> None:
        name, notified = "wayland-weston", str(self.folder / "ready")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(notified)
            ready.settimeout(PATIENCE)
            self.start(
                [
                    *("weston", "--backend=headless-backend.so", f"--socket={name}", "--idle-time=0"),
                    *("--modules=systemd-notify.so", "--no-config"),
                ],
                {"NOTIFY_SOCKET": notified},
            )
            while b"READY=1" not in ready.recv(4096):
                pass
        self.environ.update(WAYLAND_DISPLAY=name, GDK_BACKEND="wayland", QT_QPA_PLATFORM="wayland")

    def _start_windows(self) -> None:
        """Nothing: weston arranges its windows itself."""
