"""The pointer through a virtual one; places are points of the screen.

Source: wlr-virtual-pointer-unstable-v1; wayland.xml, "wl_pointer".
"""

from __future__ import annotations

from typing import List, Optional

from reflexarc_agent.backends.linux.wayland.connection import Connection
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.outputs import Outputs
from reflexarc_agent.backends.linux.wayland.seat import POINTER, Seat, milliseconds

MANAGER = "zwlr_virtual_pointer_manager_v1"
WHAT = "a pointer to move"
BUTTONS = {"left": 0x110, "right": 0x111, "middle": 0x112}
VERTICAL, HORIZONTAL = 0, 1
WHEEL = 0
NOTCH = 15.0
"""How far a notch of the wheel goes, in the compositor's measure; libinput says the same of most wheels."""

NOTCHES = 100
DRAG_STEPS = 8
STEPS = 256
"""Places within a point, so that fractions of one aren't lost."""


class Pointer:
    """Moves and clicks on one compositor's outputs; raises WaylandError, or NotOfferedError where it lets nobody."""

    def __init__(self, connection: Connection, seat: Seat, outputs: Outputs) -> None:
        self._connection = connection
        self._seat = seat
        self._outputs = outputs
        self._object: Optional[int] = None
        self._down: List[str] = []

    def require(self) -> None:
        """Raise NotOfferedError where this compositor lets nobody move the pointer."""
        self._connection.only(MANAGER, 2, WHAT)
        self._seat.require(WHAT)

    def move(self, x: float, y: float) -> None:
        """Move to a place; raises WaylandError where it is on no output."""
        with self._connection.lock:
            self._move(x, y)
            self._connection.roundtrip("moving the pointer")

    def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None:
        """Click at a place, once or several times."""
        with self._connection.lock:
            self._move(x, y)
            for _ in range(max(1, min(count, 3))):
                self._press(button, True)
                self._press(button, False)
            self._connection.roundtrip("clicking")

    def drag(self, from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        """Press at one place, move in steps, let go at the other."""
        with self._connection.lock:
            self._within(to_x, to_y)
            self._move(from_x, from_y)
            self._press("left", True)
            try:
                for step in range(1, DRAG_STEPS + 1):
                    part = step / DRAG_STEPS
                    self._move(from_x + (to_x - from_x) * part, from_y + (to_y - from_y) * part)
            finally:
                self._press("left", False)
            self._connection.roundtrip("dragging")

    def scroll(self, dx: float, dy: float) -> None:
        """Turn the wheel by lines; positive is down and right."""
        with self._connection.lock:
            pointer = self._opened()
            for axis, amount in ((VERTICAL, dy), (HORIZONTAL, dx)):
                sign = 1 if amount > 0 else -1
                for _ in range(round(min(NOTCHES, abs(amount)))):
                    now = milliseconds()
                    self._connection.request(pointer, "axis_source", WHEEL)
                    self._connection.request(pointer, "axis_discrete", now, axis, sign * NOTCH, sign)
                    self._connection.request(pointer, "frame")
            self._connection.roundtrip("scrolling")

    def mouse_down(self, button: str = "left") -> None:
        """Hold a button down, until `mouse_up` or `release`."""
        with self._connection.lock:
            self._press(button, True)
            self._down.append(button)
            self._connection.roundtrip("pressing a button")

    def mouse_up(self, button: str = "left") -> None:
        """Let a button go."""
        with self._connection.lock:
            if button in self._down:
                self._down.remove(button)
            self._press(button, False)
            self._connection.roundtrip("releasing a button")

    def release(self) -> None:
        """Let every button go that is still held down."""
        with self._connection.lock:
            for button in self._down:
                self._press(button, False)
            self._down.clear()
            self._connection.roundtrip("releasing buttons")

    def _opened(self) -> int:
        """The pointer, made when it is first needed."""
        if self._object is None:
            manager, seat = self._connection.only(MANAGER, 2, WHAT), self._seat.object(WHAT)
            with self._seat.gaining(POINTER):
                self._object = self._connection.request(manager, "create_virtual_pointer", seat)
                self._connection.roundtrip("making a pointer")
        return self._object

    def _within(self, x: float, y: float) -> tuple[float, float]:
        """A place in the compositor's layout; raises WaylandError where it is on no output."""
        outputs = self._outputs.listed()
        place = x + outputs[0].x, y + outputs[0].y
        if not any(output.holds(*place) for output in outputs):
            raise WaylandError(f"{x:g},{y:g} is on no display")
        return place

    def _move(self, x: float, y: float) -> None:
        place = self._within(x, y)
        left, top, width, height = self._outputs.bounds()
        pointer = self._opened()
        at = (
            round((place[0] - left) * STEPS),
            round((place[1] - top) * STEPS),
            width * STEPS,
            height * STEPS,
        )
        self._connection.request(pointer, "motion_absolute", milliseconds(), *at)
        self._connection.request(pointer, "frame")

    def _press(self, button: str, down: bool) -> None:
        if button not in BUTTONS:
            raise WaylandError(f"there is no button {button[:20]!r}; there are {', '.join(BUTTONS)}")
        pointer = self._opened()
        self._connection.request(pointer, "button", milliseconds(), BUTTONS[button], int(down))
        self._connection.request(pointer, "frame")
