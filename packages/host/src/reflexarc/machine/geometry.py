"""Rectangles in frame pixels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; x and y of its top-left corner, origin at the frame's top left."""

    x: int
    y: int
    width: int
    height: int

    def inside(self, width: int, height: int) -> bool:
        """Tell whether the rectangle is non-empty and lies wholly on a screen of that size."""
        return (
            self.x >= 0
            and self.y >= 0
            and self.width > 0
            and self.height > 0
            and self.x + self.width <= width
            and self.y + self.height <= height
        )
