"""The ways into a guest: which of them are ready, and which one a call takes.

It is decided before anything is sent, and never changed afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from reflexarc.errors import CapabilityError, ConnectError, MachineError
from reflexarc.machine.capabilities import Capabilities

T = TypeVar("T")
R = TypeVar("R")

RETRY = 2.0
"""Seconds after which a guest that didn't answer is looked at again, where somebody waits for it."""


def is_unsent(error: MachineError) -> bool:
    """Tell whether the error says that nothing was sent, so that another way may be taken."""
    return isinstance(error, (ConnectError, CapabilityError))


class Reach(Protocol):
    """Whether what a driver lends can be had at this moment."""

    async def ready(self, feature: str) -> bool:
        """Tell it, for `exec`, `files`, `screen` or `input`; nothing is changed by asking."""
        ...

    def refresh(self) -> None:
        """Look anew when next asked: the machine was switched or reset, or it starts."""
        ...


@dataclass(frozen=True)
class Lent:
    """What one driver lends. reach: None where it can always be asked.

    pixels_last: how late its screen, keyboard and pointer are taken, whatever the order of the drivers: 0 for a
    device outside of the guest.
    """

    driver: str
    capabilities: Capabilities
    reach: Reach | None = None
    pixels_last: int = 0


@dataclass(frozen=True)
class Way(Generic[T]):
    """One way to a capability."""

    feature: str
    to: T
    reach: Reach | None

    async def ready(self) -> bool:
        return self.reach is None or await self.reach.ready(self.feature)


@dataclass(frozen=True)
class Ways(Generic[T]):
    """The ways to a capability, the first to be taken first."""

    ways: Sequence[Way[T]]

    def __bool__(self) -> bool:
        return bool(self.ways)

    async def choose(self) -> AsyncGenerator[Way[T], None]:
        """Yield the ways that are ready, at last one that isn't, for its error, where none is."""
        none = True
        for way in self.ways:
            if await way.ready():
                none = False
                yield way
        if none:
            yield self.ways[-1]

    def refresh(self) -> None:
        """Have every way looked at anew."""
        for way in self.ways:
            if way.reach is not None:
                way.reach.refresh()

    async def take(
        self, call: Callable[[T], Awaitable[R]], again: Callable[[MachineError], bool] = is_unsent
    ) -> R:
        """Make the call on the first way that takes it, and on the next one after an error that allows it."""
        failed: MachineError | None = None
        async with aclosing(self.choose()) as ready:
            async for way in ready:
                try:
                    return await call(way.to)
                except MachineError as error:
                    if not again(error):
                        raise
                    failed = _joined(failed, error)
        assert failed is not None
        raise failed


async def streamed(ways: Ways[T], begin: Callable[[T], AsyncGenerator[R, None]]) -> AsyncGenerator[R, None]:
    """What the first way yields that takes the call; once it has yielded anything, its errors are the caller's."""
    failed: MachineError | None = None
    async with aclosing(ways.choose()) as ready:
        async for way in ready:
            begun = False
            async with aclosing(begin(way.to)) as pieces:
                try:
                    async for piece in pieces:
                        begun = True
                        yield piece
                    return
                except MachineError as error:
                    if begun or not is_unsent(error):
                        raise
                    failed = _joined(failed, error)
    if failed is not None:
        raise failed


def _joined(earlier: MachineError | None, error: MachineError) -> MachineError:
    """The newest error, with what was tried before it."""
    if earlier is not None:
        error.args = (f"{error}; tried before that: {earlier}",)
    return error
