"""Follows a picture through partial changes, and knows when they can't be believed; no I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from reflexarc.drivers.qemu.picture import Picture
from reflexarc.drivers.qemu.wire import Change
from reflexarc.machine.frame import MAX_PIXELS, Pixels

# The largest cell a text cursor blinks in.
CURSOR_WIDTH, CURSOR_HEIGHT = 16, 32
_TELLING_ROWS = 3


class Check(Enum):
    """When a screendump is wanted."""

    NONE = 0
    AT_REST = 1
    SOON = 2
    NOW = 3


@dataclass(frozen=True)
class Outcome:
    """What changes did: whether the picture differs, and when to check it."""

    changed: bool
    check: Check


class Tracker:
    """Applies changes to a picture.

    Standard VGA draws graphics in strips of the full width and text in pieces of rows. A piece on a surface
    not known to be drawn in pieces therefore means that the screen has another size now, of which QEMU's
    display says nothing: from there until the next screendump nothing but a whole picture is believed.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._astray = False
        self._pieces = False
        self._held: list[Change] | None = None

    def take(self, changes: Sequence[Change]) -> Outcome:
        """Apply changes that arrived together."""
        if self._held is not None:
            self._held.extend(changes)
        return self._apply(changes)

    def begin_dump(self) -> None:
        """A screendump is asked for: changes from now on may be older or newer than what it will show."""
        self._held = []

    def end_dump(self, pixels: Pixels) -> Outcome:
        """Take the screendump over and apply again what arrived since it was asked for.

        Changes come in order, so that applying one which the dump already shows does no harm in the end.
        """
        held, self._held = self._held or [], None
        if self._picture.size == (pixels.shape[1], pixels.shape[0]):
            self._pieces = self._pieces or self._astray
        else:
            self._pieces = False
        self._astray = False
        changed = self._picture.replace(pixels) > 0
        if sum(change.width * change.height for change in held) > MAX_PIXELS:
            return Outcome(changed, Check.NOW)
        after = self._apply(held)
        return Outcome(changed or after.changed, after.check)

    def _apply(self, changes: Sequence[Change]) -> Outcome:
        self._astray = self._astray or self._rows_of_another_width(changes)
        changed = large = False
        for change in changes:
            if change.whole and change.pixels is not None:
                changed = self._picture.replace(change.pixels) > 0 or changed
                self._astray = self._pieces = False
                large = True
            elif self._astray or change.pixels is None or not self._fits(change):
                self._astray = True
            elif self._picture.patch(change.x, change.y, change.pixels):
                changed = True
                large = large or change.width > CURSOR_WIDTH or change.height > CURSOR_HEIGHT
        if self._astray:
            return Outcome(changed, Check.NOW)
        return Outcome(changed, Check.AT_REST if large else Check.NONE)

    def _fits(self, change: Change) -> bool:
        size = self._picture.size
        if size is None or change.x < 0 or change.y < 0:
            return False
        width, height = size
        if change.x + change.width > width or change.y + change.height > height:
            return False
        return self._pieces or change.width == width

    def _rows_of_another_width(self, changes: Sequence[Change]) -> bool:
        """Tell whether the changes redraw a text screen from its top in rows narrower than the picture.

        Lines of one length that are replaced come like that, too, until a row comes that is longer or shorter.
        """
        size = self._picture.size
        if size is None or not changes or changes[0].width >= size[0]:
            return False
        width, height = changes[0].width, changes[0].height
        alike = 0
        for change in changes:
            if (change.x, change.y, change.width, change.height) != (0, alike * height, width, height):
                break
            alike += 1
        if alike < _TELLING_ROWS or alike == len(changes):
            return alike >= _TELLING_ROWS
        after = changes[alike]
        is_row = (after.y, after.height) == (alike * height, height) and after.width > CURSOR_WIDTH
        return not is_row
