"""Frames from image files."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

from reflexarc.errors import ConfigError
from reflexarc.machine.frame import Frame, pixels_of
from reflexarc.plainfiles import read_plain

# A picture of 64 megapixels in 32 bits, as it is.
MAX_FILE = 1 << 28


def load_frame(path: Path) -> Frame:
    """Read an image file as the frame of a screen.

    Raises ConfigError where it can't be read, is no image or has more than 64 megapixels.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Between Pillow's two bounds it only warns; ours, which lies in between, is checked before decoding.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = io.BytesIO(read_plain(path, MAX_FILE))
            with Image.open(file) as image:
                return Frame(pixels_of(image), 0.0, 1)
    except FileNotFoundError:
        raise ConfigError("there is no such file", path=path) from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ConfigError(f"this is no picture of a screen: {error}", path=path) from error
