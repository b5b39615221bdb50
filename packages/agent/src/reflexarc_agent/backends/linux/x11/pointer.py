"""The pointer through XTEST.

Source: XTEST, "XTestFakeMotionEvent", "XTestFakeButtonEvent".
"""

from __future__ import annotations

from reflexarc_agent.backends.linux.x11.display import Display
from reflexarc_agent.backends.linux.x11.errors import X11Error
from reflexarc_agent.backends.linux.x11.libraries import library

BUTTONS = {"left": 1, "middle": 2, "right": 3}
WHEEL_UP, WHEEL_DOWN, WHEEL_LEFT, WHEEL_RIGHT = 4, 5, 6, 7
NOTCHES = 100
DRAG_STEPS = 8


class Pointer:
    """Moves and clicks on one display; places are pixels of the screen."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._test = library("libXtst.so.6")
        self._down: list[int] = []

    def move(self, x: float, y: float) -> None:
        """Move to a place."""
        with self._display.lock:
            self._move(x, y)
            self._display.check("moving the pointer")

    def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None:
        """Click at a place, once or several times."""
        number = _button(button)
        with self._display.lock:
            self._move(x, y)
            for _ in range(max(1, min(count, 3))):
                self._press(number, True)
                self._press(number, False)
            self._display.check("clicking")

    def drag(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        """Press at one place, move in steps, let go at the other."""
        with self._display.lock:
            self._move(from_x, from_y)
            self._press(1, True)
            for step in range(1, DRAG_STEPS + 1):
                part = step / DRAG_STEPS
                self._move(from_x + (to_x - from_x) * part, from_y + (to_y - from_y) * part)
            self._press(1, False)
            self._display.check("dragging")

    def scroll(self, dx: float, dy: float) -> None:
        """Turn the wheel by lines; positive is down and right."""
        with self._display.lock:
            for amount, (forward, back) in ((dy, (WHEEL_DOWN, WHEEL_UP)), (dx, (WHEEL_RIGHT, WHEEL_LEFT))):
                for _ in range(min(NOTCHES, round(abs(amount)))):
                    self._press(forward if amount > 0 else back, True)
                    self._press(forward if amount > 0 else back, False)
            self._display.check("scrolling")

    def mouse_down(self, button: str = "left") -> None:
        """Hold a button down, until `mouse_up` or `release`."""
        number = _button(button)
        with self._display.lock:
            self._down.append(number)
            self._press(number, True)
            self._display.check("pressing a button")

    def mouse_up(self, button: str = "left") -> None:
        """Let a button go."""
        number = _button(button)
        with self._display.lock:
            if number in self._down:
                self._down.remove(number)
            self._press(number, False)
            self._display.check("releasing a button")

    def release(self) -> None:
        """Let every button go that is still held down."""
        with self._display.lock:
            for number in self._down:
                self._press(number, False)
            self._down.clear()
            self._display.check("releasing buttons")

    def _move(self, x: float, y: float) -> None:
        self._test.XTestFakeMotionEvent(self._display.handle, -1, round(x), round(y), 0)

    def _press(self, number: int, down: bool) -> None:
        self._test.XTestFakeButtonEvent(self._display.handle, number, down, 0)


def _button(name: str) -> int:
    if name not in BUTTONS:
        raise X11Error(f"there is no button {name[:20]!r}; there are {', '.join(BUTTONS)}")
    return BUTTONS[name]
