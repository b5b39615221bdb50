"""The pointer."""

from __future__ import annotations

from reflexarc.runs.acting.act import Act, Performed
from reflexarc.runs.acting.aiming import aim


async def click(act: Act) -> Performed:
    """Move there and click."""
    x, y = await _place(act)
    await act.machine.pointer.click(x, y, str(act.args["button"]))
    return Performed(result={"x": x, "y": y})


async def double_click(act: Act) -> Performed:
    """Move there and click twice."""
    x, y = await _place(act)
    await act.machine.pointer.double_click(x, y, str(act.args["button"]))
    return Performed(result={"x": x, "y": y})


async def move(act: Act) -> Performed:
    """Move there."""
    x, y = await _place(act)
    await act.machine.pointer.move(x, y)
    return Performed(result={"x": x, "y": y})


async def drag(act: Act) -> Performed:
    """Press here, let go there."""
    x, y = await _place(act)
    to_x, to_y = await _place(act, "to_")
    await act.machine.pointer.drag(x, y, to_x, to_y, str(act.args["button"]))
    return Performed(result={"x": x, "y": y, "to_x": to_x, "to_y": to_y})


async def scroll(act: Act) -> Performed:
    """Turn the wheel, over a place where one is named."""
    place = await aim(act)
    if place is not None:
        await act.machine.pointer.move(*place)
    await act.machine.pointer.scroll(act.whole("dx"), act.whole("dy"))
    return Performed()


async def _place(act: Act, prefix: str = "") -> tuple[int, int]:
    place = await aim(act, prefix)
    assert place is not None, "the loader asks for one"
    return place
