"""The pointer as callers get it: guarded, with clicks and drags; drivers only move it and press buttons."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from reflexarc.errors import ConfigError
from reflexarc.machine.capabilities import Button, Pointer
from reflexarc.machine.chords import Kept
from reflexarc.machine.guard import Guard
from reflexarc.machine.keyboard import GuardedKeyboard

# Toolkits and firmware poll the pointer; what is shorter may never be seen.
HOLD = 0.05
DOUBLE_CLICK_GAP = 0.08
DRAG_STEPS = 12
DRAG_STEP = 0.015


class GuardedPointer:
    """The pointer of one machine; x and y are pixels of the present frame. Buttons go by name or by `Button`.

    kept: where the buttons that are down are kept for other programs. keyboard: of the same machine.

    Raises ConfigError for a button that doesn't exist; nothing was sent then.
    """

    def __init__(
        self,
        pointer: Pointer,
        guard: Guard,
        kept: Kept | None = None,
        keyboard: GuardedKeyboard | None = None,
    ) -> None:
        self._pointer = pointer
        self._guard = guard
        self._kept = kept
        self._keyboard = keyboard
        self._own: dict[Button, float] = {}

    async def move(self, x: int, y: int) -> None:
        self._guard.check("pointer.move", x=x, y=y)
        await self._let_go_others()
        await self._pointer.move(x, y)

    async def click(self, x: int, y: int, button: Button | str = Button.LEFT) -> None:
        """Move there and click."""
        await self._click(x, y, button, times=1)

    async def double_click(self, x: int, y: int, button: Button | str = Button.LEFT) -> None:
        """Move there and click twice, as fast as toolkits want it."""
        await self._click(x, y, button, times=2)

    async def drag(self, x: int, y: int, to_x: int, to_y: int, button: Button | str = Button.LEFT) -> None:
        """Press at (x, y), move to (to_x, to_y) in steps, let go there."""
        pressed = _button(button)
        self._guard.check("pointer.drag", x=x, y=y, to_x=to_x, to_y=to_y, button=str(pressed))
        await self._let_go_others()
        await self._pointer.move(x, y)
        async with self._held(pressed):
            await asyncio.sleep(HOLD)
            for step in range(1, DRAG_STEPS + 1):
                await self._pointer.move(
                    x + (to_x - x) * step // DRAG_STEPS, y + (to_y - y) * step // DRAG_STEPS
                )
                await asyncio.sleep(DRAG_STEP)

    async def down(self, x: int, y: int, button: Button | str = Button.LEFT) -> None:
        """Move there, press the button and leave it down."""
        pressed = _button(button)
        self._guard.check("pointer.drag", x=x, y=y, button=str(pressed))
        await self._let_go_others()
        await self._pointer.move(x, y)
        self._own.setdefault(pressed, time.monotonic())
        self._keep()
        await self._pointer.button(pressed, True)

    async def up(self, x: int, y: int, button: Button | str = Button.LEFT) -> None:
        """Move there and let the button go."""
        pressed = _button(button)
        self._guard.check("pointer.drag", x=x, y=y, button=str(pressed))
        await self._let_go_others()
        await self._pointer.move(x, y)
        await self._release(pressed)

    @property
    def down_since(self) -> float | None:
        """When the first of the buttons that calls left down was pressed, None where none is down."""
        return min(self._own.values(), default=None)

    async def release_all(self) -> None:
        """Let go every button that calls left down."""
        for button in sorted(self._own):
            await self._release(button)

    async def scroll(self, dx: int = 0, dy: int = 0) -> None:
        """Turn the wheel by lines, to the right and down where positive."""
        self._guard.check("pointer.scroll", dx=dx, dy=dy)
        await self._let_go_others()
        await self._pointer.scroll(dx, dy)

    async def _click(self, x: int, y: int, button: Button | str, *, times: int) -> None:
        pressed = _button(button)
        self._guard.check("pointer.click", x=x, y=y, button=str(pressed), times=times)
        await self._let_go_others()
        await self._pointer.move(x, y)
        for number in range(times):
            if number:
                await asyncio.sleep(DOUBLE_CLICK_GAP)
            async with self._held(pressed):
                await asyncio.sleep(HOLD)

    @asynccontextmanager
    async def _held(self, button: Button) -> AsyncIterator[None]:
        """Hold the button; it is let go whatever ends the context, a cancellation too."""
        self._own.setdefault(button, time.monotonic())
        try:
            self._keep()
            await self._pointer.button(button, True)
            yield
        finally:
            await self._release(button)

    async def _release(self, button: Button) -> None:
        """Let a button go, whatever becomes of the note of it."""
        await self._pointer.button(button, False)
        self._own.pop(button, None)
        with suppress(ConfigError):
            self._keep()

    async def _let_go_others(self) -> None:
        """Let go what another program left down: a move of ours would be its drag, and a click one with its keys."""
        if self._keyboard is not None:
            await self._keyboard.release_others()
        if self._kept is not None:
            for button in sorted(set(map(Button, set(self._kept.read()) & set(Button))) - self._own.keys()):
                await self._pointer.button(button, False)
            self._keep()

    def _keep(self) -> None:
        """Note the buttons before they go down, so that a kill in between leaves none that nobody knows of."""
        if self._kept is not None and set(self._kept.read()) != set(self._own):
            self._kept.write(self._own)


def _button(name: Button | str) -> Button:
    try:
        return Button(name)
    except ValueError:
        raise ConfigError(f"a button is one of {', '.join(Button)}, not {name!r}") from None
