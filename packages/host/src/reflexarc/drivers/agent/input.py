"""Keys and the pointer through the agent; what is still down is let go by the guest when the connection ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflexarc.drivers.agent.client import Agent, done
from reflexarc.drivers.agent.screen import AgentScreen
from reflexarc.errors import OperationRejectedError
from reflexarc.machine.capabilities import Button, KeyEvent
from reflexarc_wire.requests import KeyDown, KeyUp, MouseDown, MouseUp, Move, Scroll

NAMES: Mapping[str, str] = {
    **{character: character for character in "abcdefghijklmnopqrstuvwxyz0123456789"},
    **{f"f{number}": f"f{number}" for number in range(1, 25)},
    **{name: name for name in ("ctrl", "alt", "shift", "meta", "enter", "esc", "tab", "space", "backspace")},
    **{name: name for name in ("delete", "insert", "home", "end", "up", "down", "left", "right", "menu")},
    "print": "print", "pause": "pause", "page_up": "pageup", "page_down": "pagedown", "caps_lock": "capslock",
    "ctrl_r": "ctrl", "shift_r": "shift", "meta_r": "meta", "alt_r": "altgr",
    "minus": "-", "equal": "=", "bracket_left": "[", "bracket_right": "]", "backslash": "\\", "semicolon": ";",
    "apostrophe": "'", "grave": "`", "comma": ",", "dot": ".", "slash": "/", "less": "<",
}  # fmt: skip
"""Canonical key -> its name on the wire; others have none there."""

MAX_LINES = 100


class AgentKeyboard:
    """Keys through the agent; implements `Keyboard`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def send(self, events: Sequence[KeyEvent]) -> None:
        """Deliver the events; raises OperationRejectedError, before any is sent, for a key an agent has no name for."""
        for event in events:
            if event.key not in NAMES:
                raise OperationRejectedError(
                    f"an agent has no key {event.key}; use the machine's own keyboard",
                    machine=self._agent.machine,
                    operation="keyboard.press",
                    code="no_such_key",
                )
        for event in events:
            name = NAMES[event.key]
            await done(self._agent, KeyDown(name) if event.down else KeyUp(name), "keyboard.press")


class AgentPointer:
    """The pointer through the agent; implements `Pointer`."""

    def __init__(self, agent: Agent, screen: AgentScreen) -> None:
        self._agent = agent
        self._screen = screen
        self._at = (0.0, 0.0)

    async def move(self, x: int, y: int) -> None:
        if self._screen.size == (0, 0):
            await self._screen.screenshot()
        width, height = self._screen.size
        if not (0 <= x < width and 0 <= y < height):
            raise OperationRejectedError(
                f"({x}, {y}) is not on its screen of {width}x{height} pixels; look where to point",
                machine=self._agent.machine,
                operation="pointer.move",
                code="outside",
            )
        at = (x / self._screen.scale, y / self._screen.scale)
        await done(self._agent, Move(*at), "pointer.move")
        self._at = at

    async def button(self, button: Button, down: bool) -> None:
        kind = MouseDown if down else MouseUp
        await done(self._agent, kind(*self._at, button=button.value), "pointer.click")

    async def scroll(self, dx: int, dy: int) -> None:
        if max(abs(dx), abs(dy)) > MAX_LINES:
            raise OperationRejectedError(
                f"at most {MAX_LINES} lines are scrolled at once, not {max(abs(dx), abs(dy))}",
                machine=self._agent.machine,
                operation="pointer.scroll",
                code="too far",
            )
        await done(self._agent, Scroll(dx, dy), "pointer.scroll")
