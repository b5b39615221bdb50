"""The tool `computer`: the actions that computer-use models know, in the coordinates of the last image."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError
from reflexarc.machine import keys
from reflexarc.machine.capabilities import Button
from reflexarc.machine.frame import Frame
from reflexarc.mcp import elements
from reflexarc.mcp.delta import acted
from reflexarc.mcp.hub import Hub, Opened
from reflexarc.mcp.picture import Scale, picture
from reflexarc.mcp.results import result

MAX_WAIT = 60.0
_X_KEYS = {"prior": "page_up", "next": "page_down"} | {
    f"{key}_l": key for key in ("control", "alt", "shift", "super", "meta")
}
MAX_TEXT = 4_000
Point = list[float] | None


@dataclass(frozen=True)
class Wish:
    """What a call of the tool asks for, beside the machine; most actions want few of them."""

    action: str
    coordinate: Point = None
    start_coordinate: Point = None
    text: str | None = None
    scroll_direction: str | None = None
    scroll_amount: int | None = None
    duration: float | None = None
    region: list[float] | None = None
    ref: str | int | None = None
    value: str | float | bool | None = None
    role: str | None = None
    name: str | None = None
    screenshot: bool = False


async def computer(hub: Hub, machine: str, wish: Wish) -> CallToolResult:
    """Carry out one action; looking changes nothing, and acts on their own one after the other."""
    if wish.action in _LOOKS:
        async with hub.looking(machine) as opened:
            return await _LOOKS[wish.action](opened, wish)
    if wish.action in elements.LOOKS:
        async with hub.looking(machine) as opened:
            return await elements.look(opened, wish)
    async with hub.acting(machine) as opened:
        if wish.action in elements.ACTS:
            return await acted(opened, wish.action, elements.act(opened, wish), screenshot=wish.screenshot)
        act = _ACTS.get(wish.action)
        if act is None:
            raise ConfigError(f"there is no action {wish.action[:40]!r}; there are {', '.join(ACTIONS)}")
        return await acted(opened, wish.action, act(opened, wish), screenshot=wish.screenshot)


async def _screenshot(opened: Opened, wish: Wish) -> CallToolResult:
    frame = await opened.session.screen.screenshot()
    data, scale = await asyncio.to_thread(picture, frame)
    opened.scale = scale
    size = {"width": scale.width, "height": scale.height}
    values = {"image": size, "screen": {"width": frame.width, "height": frame.height}}
    return result(
        f"The screen, {size['width']}x{size['height']}: coordinates are in this image.", values, data
    )


async def _zoom(opened: Opened, wish: Wish) -> CallToolResult:
    """A region in full resolution; coordinates stay those of the whole image."""
    if wish.region is None or len(wish.region) != 4:
        raise ConfigError("zoom needs region, [left, top, right, bottom]")
    frame = await opened.session.screen.screenshot()
    scale = _present(opened, frame)
    left, top = scale.to_screen(*wish.region[:2])
    right, bottom = scale.to_screen(wish.region[2] - 1, wish.region[3] - 1)
    if not (left < right < frame.width and top < bottom < frame.height):
        raise ConfigError("region is empty or outside the screen")
    data, shown = await asyncio.to_thread(picture, frame, (left, top, right + 1, bottom + 1))
    values = {"image": {"width": shown.width, "height": shown.height}, "region": wish.region}
    return result("The region, in full resolution. Coordinates stay those of the whole image.", values, data)


async def _cursor_position(opened: Opened, wish: Wish) -> CallToolResult:
    if opened.pointer is None:
        raise ConfigError("where the pointer is isn't known before it was moved from here; use mouse_move")
    scale = _present(opened, await opened.session.screen.screenshot())
    x, y = scale.to_picture(*opened.pointer)
    return result(f"The pointer is at ({x}, {y}).", {"coordinate": [x, y]})


async def _wait(opened: Opened, wish: Wish) -> CallToolResult:
    """Wait until the screen stands still, at most for so long."""
    seconds = min(MAX_WAIT, max(0.0, wish.duration if wish.duration is not None else 5.0))
    before = await opened.session.observe()
    await opened.session.watcher.still(min(1.0, seconds), at_most=seconds)
    after = await opened.session.observe()
    changed = f"; it was {before.phase}" if before.phase != after.phase else ""
    return result(
        f"The machine shows {after.phase}{changed}.", {"phase": after.phase, "before": before.phase}
    )


async def _point(opened: Opened, at: Point, *, needed: bool = True) -> tuple[int, int]:
    """Where an act is aimed at: what the client says, or else where the pointer is."""
    if needed if at is None else len(at) != 2:
        raise ConfigError("this action needs coordinate, [x, y]")
    frame = await opened.session.screen.screenshot()
    if at is not None:
        return place(opened, at, frame)
    x, y = opened.pointer or (-1, -1)
    if not (0 <= x < frame.width and 0 <= y < frame.height):
        raise ConfigError(
            "where the pointer is isn't known before it was moved from here; give coordinate, [x, y]"
        )
    return x, y


def place(opened: Opened, at: list[float], frame: Frame) -> tuple[int, int]:
    """The screen's pixel at coordinates of the last image; raises ConfigError where the screen is another by now."""
    return _present(opened, frame).to_screen(*at)


def _present(opened: Opened, frame: Frame) -> Scale:
    """The scale of the last image, which coordinates are in; raises ConfigError where it is not of this screen."""
    if opened.scale is None:
        raise ConfigError(
            "coordinates are those of the last image, and you were shown none of this machine, or too long ago; "
            "take a screenshot"
        )
    if not opened.scale.fits(frame):
        raise ConfigError(
            f"the screen has {frame.width}x{frame.height} pixels by now, another size than in the last image; "
            "take a screenshot"
        )
    return opened.scale


def _click(button: Button, times: int) -> Callable[[Opened, Wish], Awaitable[None]]:
    async def click(opened: Opened, wish: Wish) -> None:
        x, y = await _point(opened, wish.coordinate, needed=False)
        pointer = opened.session.pointer
        async with _holding(opened, wish.text):
            if times == 1:
                await pointer.click(x, y, button)
            else:
                await pointer.double_click(x, y, button)
            if times == 3:
                await pointer.click(x, y, button)
        opened.pointer = x, y

    return click


@asynccontextmanager
async def _holding(opened: Opened, text: str | None) -> AsyncIterator[None]:
    """Hold the keys of a chord down, such as shift, while something else is done; none where there is no text."""
    if not text:
        yield
        return
    keyboard, down = opened.session.keyboard, list[str]()
    try:
        for key in keys.chord(chord(text)):
            await keyboard.down(key)
            down.append(key)
        yield
    finally:
        for key in reversed(down):
            await keyboard.up(key)


async def _move(opened: Opened, wish: Wish) -> None:
    x, y = await _point(opened, wish.coordinate)
    await opened.session.pointer.move(x, y)
    opened.pointer = x, y


async def _drag(opened: Opened, wish: Wish) -> None:
    x, y = await _point(opened, wish.start_coordinate, needed=False)
    to_x, to_y = await _point(opened, wish.coordinate)
    await opened.session.pointer.drag(x, y, to_x, to_y)
    opened.pointer = to_x, to_y


async def _down(opened: Opened, wish: Wish) -> None:
    x, y = await _point(opened, wish.coordinate, needed=False)
    await opened.session.pointer.down(x, y)
    opened.pointer = x, y


async def _up(opened: Opened, wish: Wish) -> None:
    x, y = await _point(opened, wish.coordinate, needed=False)
    await opened.session.pointer.up(x, y)
    opened.pointer = x, y


async def _scroll(opened: Opened, wish: Wish) -> None:
    ways = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
    if wish.scroll_direction not in ways:
        raise ConfigError(f"scroll_direction is one of {', '.join(ways)}")
    amount = 3 if wish.scroll_amount is None else wish.scroll_amount
    if not 0 < amount <= 100:
        raise ConfigError("scroll_amount is 1 to 100")
    if wish.coordinate is not None:
        await _move(opened, wish)
    across, down = ways[wish.scroll_direction]
    async with _holding(opened, wish.text):
        await opened.session.pointer.scroll(across * amount, down * amount)


async def _type(opened: Opened, wish: Wish) -> None:
    if not wish.text:
        raise ConfigError("type needs text")
    if len(wish.text) > MAX_TEXT:
        raise ConfigError(f"type takes at most {MAX_TEXT} characters at once, not {len(wish.text)}")
    await opened.session.keyboard.type(wish.text)


async def _key(opened: Opened, wish: Wish) -> None:
    await opened.session.keyboard.press(chord(wish.text))


async def _hold_key(opened: Opened, wish: Wish) -> None:
    seconds = wish.duration if wish.duration is not None else 1.0
    if not 0 < seconds <= 30:
        raise ConfigError("duration is above 0 and at most 30 seconds")
    await opened.session.keyboard.press(chord(wish.text), hold=seconds)


def chord(text: str | None) -> str:
    """The chord in our words: models know the keys by X's names; raises ConfigError where there is none."""
    if not text:
        raise ConfigError("this action needs text, such as Return or ctrl+s")
    parts = [part.strip().lower() for part in text.split("+")]
    return "+".join(_X_KEYS.get(part, part) for part in parts)


async def _launch(opened: Opened, wish: Wish) -> None:
    if not wish.name:
        raise ConfigError("launch_app needs name")
    await opened.session.apps.launch(wish.name)


_LOOKS = {
    "screenshot": _screenshot, "zoom": _zoom, "cursor_position": _cursor_position, "wait": _wait,
}  # fmt: skip
_ACTS: dict[str, Callable[[Opened, Wish], Awaitable[None]]] = {
    "left_click": _click(Button.LEFT, 1), "right_click": _click(Button.RIGHT, 1),
    "middle_click": _click(Button.MIDDLE, 1), "double_click": _click(Button.LEFT, 2),
    "triple_click": _click(Button.LEFT, 3), "mouse_move": _move, "left_click_drag": _drag,
    "left_mouse_down": _down, "left_mouse_up": _up, "scroll": _scroll, "type": _type, "key": _key,
    "hold_key": _hold_key, "launch_app": _launch,
}  # fmt: skip
ACTIONS = (*_LOOKS, *_ACTS, *elements.LOOKS, *elements.ACTS)
