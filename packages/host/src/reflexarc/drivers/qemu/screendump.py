"""Whole pictures on demand, through files that QEMU writes."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

import numpy as np

from reflexarc.drivers.qemu.client import Monitor
from reflexarc.errors import PeerProtocolError
from reflexarc.machine.frame import MAX_PIXELS, Pixels

_HEADER = re.compile(rb"P6\s+(\d{1,5})\s+(\d{1,5})\s+255\s")
_MAX_BYTES = MAX_PIXELS * 3 + 64
_serials = itertools.count()


async def screendump(monitor: Monitor) -> Pixels:
    """Return what the machine shows now, drawn after the call; the array is the caller's.

    Raises PeerProtocolError when QEMU's file is no picture of at most 64 megapixels.
    """
    path = monitor.peer.folder / f"shot-{os.getpid()}-{next(_serials)}.ppm"
    try:
        await monitor.execute("screendump", {"filename": str(path)})
        data = _content(path)
        return parse_ppm(data)
    except (OSError, ValueError) as error:
        raise PeerProtocolError(
            f"QEMU's screendump can't be used: {error}", machine=monitor.peer.machine, operation="screendump"
        ) from error
    finally:
        path.unlink(missing_ok=True)


def parse_ppm(data: bytes) -> Pixels:
    """Turn a binary PPM of 8-bit colours into pixels; raises ValueError when it is none.

    Source: the Netpbm format description, "PPM".
    """
    header = _HEADER.match(data)
    if header is None:
        raise ValueError("no PPM header")
    width, height = int(header[1]), int(header[2])
    if not 0 < width * height <= MAX_PIXELS or len(data) - header.end() != width * height * 3:
        raise ValueError(f"{len(data)} bytes for {width}x{height} pixels")
    rgb = np.frombuffer(data, np.uint8, offset=header.end()).reshape(height, width, 3)
    packed = np.zeros((height, width, 4), np.uint8)
    for plane in range(3):
        packed[..., 2 - plane] = rgb[..., plane]
    return packed.view("<u4")[..., 0].astype(np.uint32, copy=False)


def _content(path: Path) -> bytes:
    with open(path, "rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError("more than 64 megapixels")
    return data
