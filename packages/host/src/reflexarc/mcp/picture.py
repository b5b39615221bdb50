"""Pictures as models get them, and their coordinates back to the machine's."""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image

from reflexarc.errors import ConfigError
from reflexarc.machine.frame import Frame
from reflexarc.mcp import veil

MAX_WIDTH, MAX_HEIGHT = 1366, 768


@dataclass(frozen=True)
class Scale:
    """A picture of `width` x `height` that stands for the pixels of a whole screen, or of a region of it."""

    width: int
    height: int
    left: int
    top: int
    right: int
    bottom: int

    def to_screen(self, x: float, y: float) -> tuple[int, int]:
        """The screen pixel in the middle of a picture's; raises ConfigError where there is none."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise ConfigError(
                f"({x:g}, {y:g}) is outside the last image, which is {self.width}x{self.height}; take a screenshot"
            )
        across, down = (self.right - self.left) / self.width, (self.bottom - self.top) / self.height
        return int(self.left + (x + 0.5) * across), int(self.top + (y + 0.5) * down)

    def fits(self, frame: Frame | None) -> bool:
        """Tell whether the screen still has the size that it had; True where there is no frame to tell by."""
        return frame is None or (frame.width, frame.height) == (self.right, self.bottom)

    def to_picture(self, x: int, y: int) -> tuple[int, int]:
        """The picture's pixel that shows a screen's."""
        across, down = self.width / (self.right - self.left), self.height / (self.bottom - self.top)
        return int((x - self.left + 0.5) * across), int((y - self.top + 0.5) * down)


def scale_of(left: int, top: int, right: int, bottom: int) -> Scale:
    """The scale of the picture of a region of the screen, no larger than models take it."""
    shrunk = min(1.0, MAX_WIDTH / (right - left), MAX_HEIGHT / (bottom - top))
    width, height = max(1, round((right - left) * shrunk)), max(1, round((bottom - top) * shrunk))
    return Scale(width, height, left, top, right, bottom)


def picture(frame: Frame, region: tuple[int, int, int, int] | None = None) -> tuple[bytes, Scale]:
    """A PNG of a frame, or of a region (left, top, right, bottom) of it.

    Raises SafetyError where it would show the secret of a run.
    """
    veil.check_picture(frame)
    scale = scale_of(*(region or (0, 0, frame.width, frame.height)))
    image = frame.image().crop((scale.left, scale.top, scale.right, scale.bottom))
    if image.size != (scale.width, scale.height):
        image = image.resize((scale.width, scale.height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue(), scale
