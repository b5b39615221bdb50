"""Frames: the pixels of a screen at one moment."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 64_000_000

Pixels = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture of a screen.

    pixels: uint32 array [height, width], each 0x00RRGGBB, origin at the top left, not to be written to.
    captured: `time.monotonic()` seconds when the driver had it. number: rises with every frame of a screen.
    signal: False where the device says that no source is attached; pixels are then meaningless.
    """

    pixels: Pixels
    captured: float
    number: int
    signal: bool = True

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    def image(self) -> Image.Image:
        """The frame as an RGB image of Pillow's."""
        from PIL import Image

        packed = np.ascontiguousarray(self.pixels, dtype="<u4").view(np.uint8)
        rgb = packed.reshape(self.height, self.width, 4)[..., 2::-1]
        return Image.fromarray(np.ascontiguousarray(rgb))

    def png(self) -> bytes:
        """The frame as a PNG file."""
        out = io.BytesIO()
        self.image().save(out, "PNG", compress_level=3)
        return out.getvalue()


@contextmanager
def opened(file: bytes, *formats: str) -> Iterator[Image.Image]:
    """Open a picture that may be hostile, of one of these formats of Pillow's; it is decoded where it is used.

    Raises ValueError, in words, for any other file and for a broken one, also where that shows inside of the context.
    """
    from PIL import Image

    # What Pillow warns of, a large picture, `pixels_of` refuses before a pixel is decoded.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(file), formats=formats) as image:
                yield image
        except (OSError, SyntaxError, struct.error, zlib.error, Image.DecompressionBombError) as error:
            raise ValueError(f"this is no {' or '.join(formats)} picture: {str(error)[:200]}") from error


def pixels_of(image: Image.Image) -> Pixels:
    """Turn a Pillow image into the pixels of a frame.

    Raises ValueError when the image has more than 64 megapixels or none.
    """
    if not 0 < image.width * image.height <= MAX_PIXELS:
        raise ValueError(f"an image of {image.width}x{image.height} pixels is not a screen")
    rgb = np.asarray(image.convert("RGB"), dtype=np.uint32)
    return ((rgb[..., 0] << 16) | (rgb[..., 1] << 8) | rgb[..., 2]).astype(np.uint32)
