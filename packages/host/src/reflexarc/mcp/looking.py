"""The tools `machines` and `observe`."""

from __future__ import annotations

import asyncio

from mcp_types import CallToolResult

from reflexarc.errors import SafetyError
from reflexarc.inventory import opening
from reflexarc.inventory.entries import Entry
from reflexarc.machine.frame import Frame
from reflexarc.mcp import veil
from reflexarc.mcp.hub import Hub, Opened
from reflexarc.mcp.picture import picture
from reflexarc.mcp.results import cleaned, fenced, result

MAX_TEXT = 1_900
MAX_SHOWN = 600
"""Characters of the screen in the words of a result; its values have MAX_TEXT of them."""
MAX_OUTLINE = 8_000
_BORDERS = " " + "".join(map(chr, range(0x2500, 0x2580)))
"""What frames are drawn with: a menu is mostly that."""


async def machines(hub: Hub) -> CallToolResult:
    """List the machines, what they are driven by, and what agents may do with them."""
    found = hub.entries()
    rows = [await asyncio.to_thread(_row, entry) for entry in found]
    lines = [
        f"{entry.name}: {row['state']}; agents may: {', '.join(entry.policy.agents) or 'nothing'}"
        for entry, row in zip(found, rows, strict=True)
    ]
    return result("\n".join(lines) or "The inventory has no machines.", {"machines": rows})


def _row(entry: Entry) -> dict[str, object]:
    running = opening.running_vm(entry) is not None
    state = ("running" if running else "not running") if opening.launched(entry) else "a machine of its own"
    return {
        "name": entry.name,
        "drivers": list(entry.drivers),
        "state": state,
        "allowed": list(entry.policy.agents),
    }


async def observe(
    hub: Hub, machine: str, *, image: bool = False, text: bool = True, outline: bool = False
) -> CallToolResult:
    """Look at a machine now."""
    async with hub.looking(machine) as opened:
        seen = veil.covered(await opened.session.observe())
        rung = seen.origin or seen.rung
        values: dict[str, object] = {
            "machine": machine, "phase": seen.phase, "confidence": round(seen.confidence, 3), "rung": rung,
        }  # fmt: skip
        words = [f"{machine} shows {seen.phase} (confidence {seen.confidence:.2f}, by {rung})."]
        if text and seen.text.strip():
            words.append(_read(seen.text, values))
        if outline:
            words.append(await _outlined(opened, values))
        frame = opened.session.frame_of(seen)
        pictures = await _pictured(opened, frame, values, image=image) if frame is not None else []
    return result("\n".join(words), values, *pictures)


def _read(text: str, values: dict[str, object]) -> str:
    """Put what the screen reads into the values, without blank ends, and the last of it, unframed, into words."""
    lines = [line.rstrip() for line in cleaned(text).splitlines()]
    whole = "\n".join(lines).strip("\n")
    values["text"], values["text_is_untrusted"] = whole[-MAX_TEXT:], True
    bare = (line.strip(_BORDERS) for line in lines)
    shown = "\n".join(line for line in bare if line)
    cut = "" if len(shown) <= MAX_SHOWN else f"Its last {MAX_SHOWN} characters (more in `text`):\n"
    return cut + fenced(shown[-MAX_SHOWN:])


async def _outlined(opened: Opened, values: dict[str, object]) -> str:
    tree = await opened.session.accessibility.dump(form="outline", interactive_only=True)
    outline = cleaned(tree.outline)[:MAX_OUTLINE]
    values["outline"], values["text_is_untrusted"] = outline, True
    return fenced(outline)


async def _pictured(opened: Opened, frame: Frame, values: dict[str, object], *, image: bool) -> list[bytes]:
    values["screen"] = {"width": frame.width, "height": frame.height}
    if not image:
        return []
    try:
        data, scale = await asyncio.to_thread(picture, frame)
    except SafetyError as refusal:
        values["image"], values["withheld"] = None, str(refusal)
        return []
    opened.scale = scale
    values["image"] = {"width": scale.width, "height": scale.height}
    return [data]
