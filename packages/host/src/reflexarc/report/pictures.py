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
MAX_PICTURES = 120
# Widest side in pixels and WebP quality, from what is wanted to what is still worth looking at.
LEVELS = ((960, 72), (720, 50), (480, 40), (320, 30), (240, 20))
EXACT_COLOURS = 64
EXACT_SIDE = 1280


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its size in pixels."""

    uri: str
    width: int
    height: int


class Album:
    """Hands out each picture once, so that it is in the document once."""

    def __init__(self, pictures: Mapping[str, Picture]) -> None:
        self._pictures = pictures
        self._shown: dict[str, str] = {}

    def has(self, ref: str) -> bool:
        """Tell whether there is such a picture."""
        return ref in self._pictures

    def take(self, ref: str, where: str) -> Picture | None:
        """The picture where it wasn't taken yet; from now on it stands at `where`."""
        if ref in self._shown or ref not in self._pictures:
            return None
        self._shown[ref] = where
        return self._pictures[ref]

    def where(self, ref: str) -> str | None:
        """Where the picture stands, None where it was never taken."""
        return self._shown.get(ref)


def pictures(
    folder: Path, featured: Sequence[str], others: Sequence[str] = (), *, budget: int = BUDGET
) -> Mapping[str, Picture]:
    """The stored frames of those names, by name, scaled so that all data URIs together fit into `budget` bytes.

    A featured one may take four times as much as another. Of many, 120 are taken evenly. What doesn't fit even
    at its smallest, or can't be read, is left out.
    """
    names = list(dict.fromkeys(featured))[:MAX_PICTURES]
    first = len(names)
    names += _evenly([name for name in dict.fromkeys(others) if name not in names], MAX_PICTURES - first)
    weights = [4] * first + [1] * (len(names) - first)
    made: dict[str, Picture] = {}
    level = 0
    for number, name in enumerate(names):
        allowed = budget * weights[number] // sum(weights[number:])
        image = _stored(folder / name)
        found = _within(image, allowed, level) if image is not None else None
        if found is not None:
            made[name], level = found
            size = len(made[name].uri)
            budget -= size
            level = max(0, level - (size < allowed // 2))
    return made


def _evenly(names: Sequence[str], count: int) -> list[str]:
    """So many of the names at even distances, all where there are no more."""
    count = min(count, len(names))
    return [names[number * len(names) // count] for number in range(count)]


def _within(image: Image.Image, allowed: int, level: int) -> tuple[Picture, int] | None:
    """The image within so many bytes, at the first level from `level` on that fits, and that level."""
    exact = _exact(image)
    if exact is not None and len(exact) * 4 // 3 + 50 <= allowed:
        return Picture(_uri(exact), image.width, image.height), level
    for number in range(level, len(LEVELS)):
        uri = _uri(_lossy(image, *LEVELS[number]))
        if len(uri) <= allowed:
            return Picture(uri, image.width, image.height), number
    return None


def _uri(data: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(data).decode("ascii")


def _stored(path: Path) -> Image.Image | None:
    try:
        with Image.open(path, formats=("PNG", "WEBP")) as stored:
            if 0 < stored.width * stored.height <= MAX_PIXELS:
                return stored.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        pass
    return None


def _exact(image: Image.Image) -> bytes | None:
    """A text screen unscaled and without loss, which is the smallest and the sharpest; None for another."""
    if max(image.size) > EXACT_SIDE or image.getcolors(EXACT_COLOURS) is None:
        return None
    out = io.BytesIO()
    image.save(out, "WEBP", lossless=True, quality=60, method=2)
    return out.getvalue()


def _lossy(image: Image.Image, side: int, quality: int) -> bytes:
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=quality, method=2)
    return out.getvalue()
