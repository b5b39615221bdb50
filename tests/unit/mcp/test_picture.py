"""Coordinates of a picture and of the screen, there and back."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reflexarc.errors import ConfigError
from reflexarc.machine.frame import Frame
from reflexarc.mcp.picture import MAX_HEIGHT, MAX_WIDTH, picture, scale_of


def frame(width: int, height: int) -> Frame:
    pixels = np.arange(height * width, dtype=np.uint32).reshape(height, width)
    return Frame(pixels, 0.0, 0)


@given(st.integers(1, 3000), st.integers(1, 2000), st.floats(0, 1), st.floats(0, 1))
def test_what_is_seen_at_a_place_is_at_the_place_meant(
    width: int, height: int, across: float, down: float
) -> None:
    scale = scale_of(0, 0, width, height)
    assert (scale.width <= MAX_WIDTH, scale.height <= MAX_HEIGHT) == (True, True)
    x, y = min(scale.width - 1, int(across * scale.width)), min(scale.height - 1, int(down * scale.height))
    on_screen = scale.to_screen(x, y)
    assert 0 <= on_screen[0] < width
    assert 0 <= on_screen[1] < height
    assert scale.to_picture(*on_screen) == (x, y)


def test_a_large_screen_shrinks_and_keeps_its_shape() -> None:
    data, scale = picture(frame(2732, 1536))
    assert (scale.width, scale.height) == (1366, 768)
    assert Image.open(io.BytesIO(data)).size == (1366, 768)
    assert scale == scale_of(0, 0, 2732, 1536)
    assert scale.to_screen(0, 0) == (1, 1)
    assert scale.to_screen(1365, 767) == (2731, 1535)


def test_a_region_is_shown_pixel_by_pixel() -> None:
    data, scale = picture(frame(2000, 1000), (100, 200, 110, 220))
    shown = Image.open(io.BytesIO(data))
    assert shown.size == (10, 20)
    assert scale.to_screen(0, 0) == (100, 200)


@pytest.mark.parametrize("at", [(-1, 0), (1366, 0), (0, 683), (float("nan"), 0)])
def test_a_place_outside_is_refused(at: tuple[float, float]) -> None:
    scale = scale_of(0, 0, 2732, 1366)
    with pytest.raises(ConfigError, match=r"outside the last image, which is 1366x683"):
        scale.to_screen(*at)
