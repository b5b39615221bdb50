"""From what a step aims at to a pixel of the present frame."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import unicodedata
from collections.abc import Mapping

from reflexarc.errors import OperationRejectedError
from reflexarc.machine.accessibility import Selector
from reflexarc.machine.elements import Elements
from reflexarc.observation import ScreenText
from reflexarc.runs.acting.act import Act
from reflexarc.runs.acting.element import selector_of
from reflexarc.runs.acting.reaching import reached
from reflexarc.sensing.needle import Patch

_WIDE = ("W", "F")
DRAWN = 2.0


async def aim(act: Act, prefix: str = "") -> tuple[int, int] | None:
    """The pixel that a step aims at by `x` and `y`, by text, needle or element; None where it names no place.

    Raises OperationRejectedError where there is no such place on the screen; nothing was sent then.
    """
    x, y = act.args.get(f"{prefix}x"), act.args.get(f"{prefix}y")
    pattern = act.args.get(f"{prefix}text")
    if isinstance(pattern, str):
        return await _found(act, pattern)
    name, image = act.args.get(f"{prefix}needle"), act.args.get(f"{prefix}image")
    if isinstance(name, str) and isinstance(image, str):
        return await _seen(act, Patch(name, base64.b64decode(image)))
    element = act.args.get(f"{prefix}element")
    if isinstance(element, Mapping):
        return await _held(act, selector_of(act, element))
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        return None
    frame = await act.machine.screen.screenshot()
    place = _pixel(x, frame.width), _pixel(y, frame.height)
    if not frame.signal or not (0 <= place[0] < frame.width and 0 <= place[1] < frame.height):
        raise _rejected(
            act, f"({x}, {y}) is not on its screen of {frame.width}x{frame.height} pixels", "outside"
        )
    return place


async def _held(act: Act, selector: Selector) -> tuple[int, int]:
    """The middle of what shows of the one element that is meant; a point of its screen is a pixel of the frame."""
    elements = Elements(act.machine.accessibility, act.machine.name)
    element = await reached(act, lambda: elements.one(selector))
    frame = await act.machine.screen.screenshot()
    area = element.area
    if area is None:
        raise _rejected(act, f"the {selector} has no place on the screen", "element")
    left, right = max(0.0, area.x), min(float(frame.width), area.x + area.width)
    top, bottom = max(0.0, area.y), min(float(frame.height), area.y + area.height)
    if not frame.signal or left >= right or top >= bottom:
        raise _rejected(
            act, f"the {selector} is not on its screen of {frame.width}x{frame.height} pixels", "outside"
        )
    return int((left + right) / 2), int((top + bottom) / 2)


def _pixel(value: float, size: int) -> int:
    """Whole numbers are pixels, others a share of the screen: 1.0 is the last pixel."""
    return value if isinstance(value, int) else round(value * (size - 1))


async def _seen(act: Act, patch: Patch) -> tuple[int, int]:
    """The middle of the one place where the picture is, waited for a moment."""
    deadline = time.monotonic() + DRAWN
    while True:
        frame = await act.machine.screen.screenshot()
        places = await asyncio.to_thread(patch.places, frame.pixels, most=2) if frame.signal else []
        if len(places) == 1:
            return places[0].x + places[0].width // 2, places[0].y + places[0].height // 2
        remaining = deadline - time.monotonic()
        if remaining <= 0 or await act.watcher.next(await act.watcher.fresh(), remaining) is None:
            many = "is there more than once; it has to be there once" if places else "is not there"
            raise _rejected(act, f"aimed at the picture {patch.name!r}, which {many}", "needle")


async def _found(act: Act, pattern: str) -> tuple[int, int]:
    """The middle of the one place where the text is, waited for a moment: a menu may still be drawn.

    The reader knows the cells of what it read last only, so nothing is awaited between reading and asking it.
    """
    deadline = time.monotonic() + DRAWN
    seen = await act.watcher.fresh()
    while len(places := _matches(pattern, seen.screen)) != 1:
        remaining = deadline - time.monotonic()
        later = await act.watcher.next(seen, remaining) if remaining > 0 else None
        if later is None:
            rows = ", ".join(str(row) for row, _, _ in places[:10])
            many = f"is there {len(places)} times (rows {rows}); it has to be there once"
            raise _rejected(
                act, f"aimed at the text /{pattern}/, which {many if places else 'is not there'}", "text"
            )
        seen = later
    row, first, last = places[0]
    left, right = act.watcher.cell(row, first), act.watcher.cell(row, last)
    if left is None or right is None:
        raise _rejected(act, f"the text /{pattern}/ is on no character cells", "text")
    return (left.x + right.x + right.width) // 2, left.y + left.height // 2


def _matches(pattern: str, screen: ScreenText | None) -> list[tuple[int, int, int]]:
    """Row, first and last cell of every place where the pattern is found."""
    return [
        (row, _cells(line[: found.start()]), _cells(line[: found.end()]) - 1)
        for row, line in enumerate(screen.lines if screen is not None else ())
        for found in re.finditer(pattern, line)
        if found.end() > found.start()
    ]


def _cells(text: str) -> int:
    """How many cells a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


def _rejected(act: Act, problem: str, code: str) -> OperationRejectedError:
    return OperationRejectedError(
        problem, machine=act.machine.name, operation=act.state.step.operation or "", code=code
    )
