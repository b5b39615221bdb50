"""The tools `machines` and `observe`."""

from __future__ import annotations

import asyncio

from mcp_types import CallToolResult

from reflexarc.inventory import opening
from reflexarc.inventory.entries import Entry
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.picture import picture, whole
from reflexarc.mcp.results import fenced, result

MAX_TEXT = 2_000


async def machines(hub: Hub) -> CallToolResult:
    """List the machines, what they are driven by, and what agents may do with them."""
    found = hub.entries()
    rows = [await asyncio.to_thread(_row, entry) for entry in found]
    lines = [
        f"{entry.name}: {row['state']}; agents may: {', '.join(entry.policy.agents)}"
        for entry, row in zip(found, rows, strict=True)
    ]
    return result("\n".join(lines) or "The inventory has no machines.", {"machines": rows})


def _row(entry: Entry) -> dict[str, object]:
    virtual = opening.launched(entry)
    running = opening.running_vm(entry) is not None
    return {
        "name": entry.name,
        "drivers": list(entry.drivers),
        "state": ("running" if running else "not running") if virtual else "a machine of its own",
        "allowed": list(entry.policy.agents),
    }


async def observe(
    hub: Hub, machine: str, *, image: bool = False, text: bool = True, outline: bool = False
) -> CallToolResult:
    """Look at a machine now."""
    async with hub.looking(machine) as opened:
        session = opened.session
        seen = await session.observe()
        frame = session.frame_of(seen)
        values: dict[str, object] = {
            "machine": machine,
            "phase": seen.phase,
            "confidence": round(seen.confidence, 3),
            "rung": seen.origin or seen.rung,
        }
        pictures = []
        if frame is not None:
            opened.scale = whole(frame)
            values["screen"] = {"width": frame.width, "height": frame.height}
            if image:
                data, scale = await asyncio.to_thread(picture, frame)
                opened.scale = scale
                values["image"] = {"width": scale.width, "height": scale.height}
                pictures.append(data)
        parts = [f"{machine} shows {seen.phase} (confidence {seen.confidence:.2f}, by {values['rung']})."]
        if text and seen.text:
            values["text"] = seen.text[-MAX_TEXT:]
            values["text_is_untrusted"] = True
            parts.append(fenced(seen.text[-MAX_TEXT:]))
        if outline:
            tree = await session.accessibility.dump(form="outline", interactive_only=True)
            values["outline"], values["text_is_untrusted"] = tree.outline[:MAX_TEXT], True
            parts.append(fenced(tree.outline[:MAX_TEXT]))
    return result("\n".join(parts), values, *pictures)
