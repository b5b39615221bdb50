"""Pictures that conditions look for: files beside a playbook, carried in it from loading on.

A playbook that was loaded from a file has the bytes of its needles in its `source`, so that the journal of a run
has them too, whatever becomes of the files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import cast

from reflexarc.errors import PlaybookError
from reflexarc.machine import patch
from reflexarc.machine.frame import Pixels
from reflexarc.plainfiles import read_plain
from reflexarc.playbook.document import Document, Path

MAX_TOTAL = 1 << 20


# Where a needle is named, and where its bytes are put.
_KEYS = {"needle": "image", "to_needle": "to_image"}


def required(image: object) -> str:
    """The bytes of a needle, in base64; raises ValueError, in words, where there are none."""
    if isinstance(image, str):
        return image
    raise ValueError(
        "a picture is a file beside a playbook's own file; elsewhere give its PNG in base64 as `image`"
    )


def decode(image: str) -> Pixels:
    """The pixels of a needle from its PNG file in base64; raises ValueError, in words."""
    try:
        png = base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("the image is a PNG file in base64") from error
    return patch.decode(png)


def embed(document: Document, folder: FilePath) -> None:
    """Put beside each needle that a document names the bytes of its file, as `image`.

    Raises PlaybookError for a file that isn't in the folder, can't be read or is too large (1 MiB in all).
    """
    total = 0
    for path, named, key in _needles((), document.data):
        if named.get(_KEYS[key]) is None and isinstance(name := named[key], str):
            png = _read(document, (*path, key), folder, name)
            total += len(png)
            if total > MAX_TOTAL:
                raise document.error(
                    (*path, key), f"the needles are larger than {MAX_TOTAL >> 10} KiB in all"
                )
            named[_KEYS[key]] = base64.b64encode(png).decode()


def _needles(path: Path, value: object) -> Iterator[tuple[Path, dict[str, object], str]]:
    if isinstance(value, dict):
        yield from ((path, cast("dict[str, object]", value), key) for key in _KEYS if key in value)
        for key, part in value.items():
            yield from _needles((*path, key), part)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _needles((*path, index), part)


def _read(document: Document, path: Path, folder: FilePath, name: str) -> bytes:
    try:
        root = folder.resolve()
        file = (root / name).resolve()
        if FilePath(name).is_absolute() or not file.is_relative_to(root):
            raise document.error(path, f"the needle {name!r} is not in the folder of the playbook")
        if not file.is_file():
            raise document.error(path, f"there is no picture {name!r} beside the playbook")
        png = read_plain(file, patch.MAX_FILE)
        patch.decode(png)
    except OSError as error:
        raise document.error(path, f"the needle {name!r} can't be read: {error.strerror}") from error
    except PlaybookError:
        raise
    except ValueError as error:
        raise document.error(path, f"the needle {name!r}: {error}") from error
    return png
