"""A QEMU machine driven over QMP: keys, pictures, memory and ports, and what its serial lines said.

It shares no code with the product, so that what it records can judge the product.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image, ImageChops

PATIENCE = 300.0
_PAUSE = 0.25
_CURSOR = (16, 32)
_SHIFTED = dict(zip('~!@#$%^&*()_+{}|:"<>?', "`1234567890-=[]\\;',./", strict=True))
_NAMED = {
    " ": "spc", "\n": "ret", "-": "minus", "=": "equal", "/": "slash", ".": "dot", ",": "comma",
    ";": "semicolon", "'": "apostrophe", "[": "bracket_left", "]": "bracket_right", "\\": "backslash",
    "`": "grave_accent",
}  # fmt: skip


class Machine:
    """A machine that runs while its context is open; its files lie in `folder`."""

    def __init__(self, options: Sequence[str], folder: Path) -> None:
        self.folder = folder
        self._options = options
        self._replies = b""

    def __enter__(self) -> Self:
        path = self.folder / "qmp"
        argv = [
            "qemu-system-x86_64", "-accel", "tcg", "-nodefaults", "-display", "none", "-vga", "std",
            "-qmp", f"unix:{path},server=on,wait=off",
            "-serial", f"file:{self.folder / 'serial'}",
            "-serial", f"unix:{self.folder / 'console'},server=on,wait=off",
            *self._options,
        ]  # fmt: skip
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._qmp = self._connect(path)
        self._answer("QMP")
        self.execute("qmp_capabilities")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._qmp.close()

    def _connect(self, path: Path) -> socket.socket:
        """Connect to the monitor as soon as it listens."""
        deadline = time.monotonic() + 30
        while True:
            qmp = socket.socket(socket.AF_UNIX)
            qmp.settimeout(60)
            try:
                qmp.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                qmp.close()
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._process.kill()
                    _, said = self._process.communicate()
                    raise RuntimeError(f"QEMU did not start: {said.decode(errors='replace')}") from None
                time.sleep(0.05)
            else:
                return qmp

    def execute(self, command: str, **arguments: object) -> object:
        """Run a QMP command and return what it returns."""
        self._qmp.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        return self._answer("return")

    def monitor(self, line: str) -> str:
        """Run a line of the human monitor."""
        return str(self.execute("human-monitor-command", **{"command-line": line}))

    def _answer(self, key: str) -> object:
        while True:
            line, end, rest = self._replies.partition(b"\n")
            if not end:
                self._replies += self._qmp.recv(1 << 16)
                continue
            self._replies = rest
            message = json.loads(line)
            if "error" in message:
                raise RuntimeError(f"QMP refused: {message['error']}")
            if key in message:
                return message[key]

    def keys(self, *chords: str) -> None:
        """Press chords by their QEMU key codes, parts joined by +, one after the other."""
        for chord in chords:
            parts = [{"type": "qcode", "data": part} for part in chord.split("+")]
            self.execute("send-key", keys=parts, **{"hold-time": 60})
            time.sleep(0.15)

    def type(self, text: str) -> None:
        """Type a text on a US keyboard; a newline is Return."""
        for character in text:
            plain = _SHIFTED.get(character, character.lower())
            shift = "shift+" if character in _SHIFTED or character.isupper() else ""
            self.keys(shift + _NAMED.get(plain, plain))

    def picture(self) -> Image.Image:
        """What the screen shows."""
        path = self.folder / "screen.ppm"
        self.execute("screendump", filename=str(path))
        with Image.open(path) as image:
            return image.convert("RGB")

    def memory(self, address: int, size: int) -> bytes:
        """Physical memory of the machine."""
        path = self.folder / "memory"
        self.execute("pmemsave", val=address, size=size, filename=str(path))
        return path.read_bytes()

    def serial(self) -> bytes:
        """All that the first serial line said."""
        path = self.folder / "serial"
        return path.read_bytes() if path.exists() else b""

    def tell(self, line: str) -> None:
        """Send a line over the second serial line."""
        with socket.socket(socket.AF_UNIX) as console:
            console.connect(str(self.folder / "console"))
            console.sendall(line.encode() + b"\n")

    def until_serial(self, pattern: str, *, patience: float = PATIENCE) -> None:
        """Wait until the first serial line said something that matches."""
        deadline = time.monotonic() + patience
        while not re.search(pattern, self.serial().decode(errors="replace"), re.MULTILINE):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the serial line never said {pattern!r}: {self.serial()[-400:]!r}")
            time.sleep(_PAUSE)

    def until_colours(self, count: int, *, patience: float = PATIENCE) -> None:
        """Wait until the picture has at least so many colours."""
        deadline = time.monotonic() + patience
        while len(self.picture().getcolors(1 << 24) or ()) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the picture never had {count} colours")
            time.sleep(_PAUSE)

    def until_still(self, *, seconds: float = 1.5, patience: float = PATIENCE) -> Image.Image:
        """Wait until the picture did not change for some seconds."""
        deadline = time.monotonic() + patience
        before, since = self.picture(), time.monotonic()
        while time.monotonic() - since < seconds:
            if time.monotonic() > deadline:
                raise TimeoutError("the picture never stood still")
            time.sleep(_PAUSE)
            now = self.picture()
            if not same(before, now):
                before, since = now, time.monotonic()
        return before


def same(before: Image.Image, after: Image.Image) -> bool:
    """Tell whether two pictures differ by no more than a blinking cursor."""
    if before.size != after.size:
        return False
    box = ImageChops.difference(before, after).getbbox()
    return box is None or (box[2] - box[0] <= _CURSOR[0] and box[3] - box[1] <= _CURSOR[1])
