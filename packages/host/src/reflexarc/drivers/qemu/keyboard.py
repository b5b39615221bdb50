"""Keys over QMP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.drivers.qemu.input import send_input
from reflexarc.machine.capabilities import KeyEvent
from reflexarc.machine.keys import KEYS

_RENAMED = {
    "meta": "meta_l", "bracket_left": "bracket_left", "bracket_right": "bracket_right",
    "grave": "grave_accent", "enter": "ret", "space": "spc", "page_up": "pgup", "page_down": "pgdn",
    "kp_dot": "kp_decimal",
    # The key right of AltGr; QKeyCode's own `menu` is another, found on no PC keyboard.
    "menu": "compose",
}  # fmt: skip

# Source: QEMU, qapi/ui.json, QKeyCode (f13 to f24 since 8.0).
QCODES: Mapping[str, str] = {key: _RENAMED.get(key, key) for key in KEYS}


class QemuKeyboard:
    """The machine's keyboard; implements `Keyboard`."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    async def send(self, events: Sequence[KeyEvent]) -> None:
        """Deliver the events in one QMP command.

        Unread, a PS/2 keyboard holds 16 bytes, about five letters; what goes beyond is lost in the machine.
        """
        if events:
            await send_input(self._monitor, "keyboard.press", [_event(event) for event in events])


def _event(event: KeyEvent) -> dict[str, object]:
    key = {"type": "qcode", "data": QCODES[event.key]}
    return {"type": "key", "data": {"down": event.down, "key": key}}
