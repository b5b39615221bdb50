"""The guest's memory as QEMU shares it: no address is followed before it is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class GuestError(Exception):
    """The guest, or QEMU on its behalf, broke the protocol; what it asked for was not done."""


@dataclass(frozen=True)
class Region:
    """A stretch of memory: where it begins for the guest and for QEMU, and its bytes."""

    guest: int
    user: int
    view: memoryview


class Memory:
    """All that the device may touch."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._guest = tuple((region.guest, len(region.view), region.view) for region in regions)
        self._user = tuple((region.user, len(region.view), region.view) for region in regions)

    def at_guest(self, address: int, size: int) -> memoryview:
        """The bytes at a guest-physical address; raises GuestError where they aren't all in one region."""
        return _cut(self._guest, address, size)

    def at_user(self, address: int, size: int) -> memoryview:
        """The bytes at an address of QEMU's; raises GuestError where they aren't all in one region."""
        return _cut(self._user, address, size)


def _cut(regions: tuple[tuple[int, int, memoryview], ...], address: int, size: int) -> memoryview:
    for begin, length, view in regions:
        at = address - begin
        if at >= 0 and at + size <= length:
            return view[at : at + size]
    raise GuestError(f"there is no memory at {address:#x}+{size}")
