"""Patches: small pictures that are looked for on a screen, from PNG files."""

from __future__ import annotations

import numpy as np

from reflexarc.machine.frame import Pixels, opened, pixels_of

MAX_FILE = 128 * 1024
MAX_SIDE = 1024
MAX_AREA = 1 << 18
MIN_SIDE = 4


def decode(png: bytes) -> Pixels:
    """The pixels of a PNG file.

    Raises ValueError, in words, for one that is no PNG, too large (128 KiB, 1024 pixels a side, 262,144 in all), or
    that shows nothing to look for: less than 4 pixels a side, or a single colour.
    """
    if len(png) > MAX_FILE:
        raise ValueError(f"the picture is larger than {MAX_FILE >> 10} KiB")
    with opened(png, "PNG") as image:
        width, height = image.size
        if max(width, height) > MAX_SIDE or width * height > MAX_AREA:
            raise ValueError(f"a picture of {width}x{height} pixels is too large to be looked for")
        if min(width, height) < MIN_SIDE:
            raise ValueError(f"a picture of {width}x{height} pixels is too small to be looked for")
        pixels = pixels_of(image)
    if bool(np.all(pixels == pixels[0, 0])):
        raise ValueError("the picture has a single colour, which is everywhere")
    return pixels
