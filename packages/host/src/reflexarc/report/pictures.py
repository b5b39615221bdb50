"""The frames of a report: small, inside the document, together within a budget."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from reflexarc.machine.frame import MAX_PIXELS

BUDGET = 1_900_000
# Widest side in pixels and WebP quality, from what is wanted to what is still worth looking at.
LEVELS = ((960, 72), (720, 50), (480, 40), (320, 30))
EXACT_COLOURS = 64
EXACT_AT_MOST = 24_000


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its size in pixels."""

    uri: str
    width: int
    height: int


def pictures(folder: Path, wanted: Sequence[str], *, budget: int = BUDGET) -> Mapping[str, Picture]:
    """The stored frames of those names, by name, scaled so that all data URIs fit into `budget` bytes.

    wanted: the most important first; what doesn't fit even at its smallest, or can't be read, is left out.
    """
    names = list(dict.fromkeys(wanted))
    made: dict[str, Picture] = {}
    for side, quality in LEVELS:
        made = {
            name: picture for name in names if (picture := _picture(folder / name, side, quality)) is not None
        }
        if sum(len(picture.uri) for picture in made.values()) <= budget:
            return made
    return _fitting(made, budget)


def _fitting(made: Mapping[str, Picture], budget: int) -> Mapping[str, Picture]:
    kept: dict[str, Picture] = {}
    for name, picture in made.items():
        if len(picture.uri) <= budget:
            budget -= len(picture.uri)
            kept[name] = picture
    return kept


def _picture(path: Path, side: int, quality: int) -> Picture | None:
    try:
        with Image.open(path, formats=("PNG", "WEBP")) as stored:
            if not 0 < stored.width * stored.height <= MAX_PIXELS:
                return None
            image = stored.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    data = _exact(image, side) or _lossy(image, side, quality)
    uri = "data:image/webp;base64," + base64.b64encode(data).decode("ascii")
    return Picture(uri, image.width, image.height)


def _exact(image: Image.Image, side: int) -> bytes | None:
    """A text screen unscaled and without loss, which is the smallest and the sharpest; None for another."""
    if max(image.size) > max(side, 1280) or image.getcolors(EXACT_COLOURS) is None:
        return None
    out = io.BytesIO()
    image.save(out, "WEBP", lossless=True, quality=60, method=2)
    return out.getvalue() if out.tell() <= EXACT_AT_MOST * side // LEVELS[0][0] else None


def _lossy(image: Image.Image, side: int, quality: int) -> bytes:
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=quality, method=3)
    return out.getvalue()
