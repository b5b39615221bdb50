"""A button that a click could not let go, since the call was broken off, is known as down."""

from __future__ import annotations

import asyncio

import pytest

from reflexarc.machine.capabilities import Button
from reflexarc.machine.guard import Guard
from reflexarc.machine.pointer import GuardedPointer
from reflexarc.machine.policy import Policy


class Slow:
    """A pointer whose device takes what lets go a button only once it is told to; implements `Pointer`."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.down: set[Button] = set()

    async def move(self, x: int, y: int) -> None: ...

    async def button(self, button: Button, down: bool) -> None:
        if not down:
            await self.answers.wait()
        (self.down.add if down else self.down.discard)(button)

    async def scroll(self, dx: int, dy: int) -> None: ...


@pytest.mark.parametrize("act", ["click", "drag"])
def test_what_a_cancelled_act_left_down_is_let_go_afterwards(act: str) -> None:
    async def ask() -> None:
        device = Slow()
        pointer = GuardedPointer(device, Guard("lab", Policy(people=("*",), agents=())))
        acting = asyncio.ensure_future(pointer.click(1, 1) if act == "click" else pointer.drag(1, 1, 9, 9))
        while not device.down:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(2):
            acting.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await acting
        assert device.down == {Button.LEFT}
        assert pointer.down_since is not None
        device.answers.set()
        await pointer.release_all()
        assert device.down == set()
        assert pointer.down_since is None

    asyncio.run(ask())
