"""The tools `power`, `media`, `boot_device` and `snapshot`; what is destructive needs a person's grant."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.results import result
from reflexarc.runs.session import Session

Acts = Mapping[str, Callable[[], Awaitable[None]]]


async def power(hub: Hub, machine: str, action: str) -> CallToolResult:
    """Tell or switch the power."""
    if action == "on":
        await asyncio.to_thread(hub.launch, machine)

    def acts(session: Session) -> Acts:
        lever = session.power
        return {"on": lever.on, "shutdown": lever.shutdown, "off": lever.off, "reset": lever.reset,
                "cycle": lever.cycle}  # fmt: skip

    async def told(session: Session) -> tuple[str, dict[str, object]]:
        state = str(await session.power.state())
        return f"The power is {state}.", {"power": state}

    return await _done(hub, machine, action, "status", acts, told)


async def media(hub: Hub, machine: str, action: str, source: str | None) -> CallToolResult:
    """Tell, insert or eject the image in the drive."""
    if action == "insert" and not source:
        raise ConfigError("insert needs source: an image in a folder that the inventory names")

    def acts(session: Session) -> Acts:
        async def insert() -> None:
            await session.media.insert(session.host.image(source or "", typed=False))

        return {"insert": insert, "eject": session.media.eject}

    async def told(session: Session) -> tuple[str, dict[str, object]]:
        image = await session.media.inserted()
        return f"In the drive: {image or 'nothing'}.", {"inserted": image}

    return await _done(hub, machine, action, "status", acts, told)


async def boot_device(hub: Hub, machine: str, device: str | None, *, once: bool) -> CallToolResult:
    """Tell or set what the machine starts from."""

    def acts(session: Session) -> Acts:
        return {"set": lambda: session.boot.set(device or "", once=once)}

    async def told(session: Session) -> tuple[str, dict[str, object]]:
        setting = await session.boot.setting()
        words = f"It starts from {setting.device}{', once' if setting.once else ''}."
        return words, {"device": str(setting.device), "once": setting.once}

    return await _done(hub, machine, "set" if device else "status", "status", acts, told)


async def snapshot(hub: Hub, machine: str, action: str, name: str | None) -> CallToolResult:
    """List, save, restore or delete whole states of the machine."""
    if action != "list" and not name:
        raise ConfigError(f"{action} needs name")

    def acts(session: Session) -> Acts:
        held = session.snapshot
        return {
            "save": lambda: held.save(name or ""),
            "restore": lambda: held.restore(name or ""),
            "delete": lambda: held.delete(name or ""),
        }

    async def told(session: Session) -> tuple[str, dict[str, object]]:
        names = [saved.name for saved in await session.snapshot.saved()]
        return f"Saved states: {', '.join(names) or 'none'}.", {"saved": names}

    return await _done(hub, machine, action, "list", acts, told)


async def _done(
    hub: Hub,
    machine: str,
    action: str,
    look: str,
    acts: Callable[[Session], Acts],
    told: Callable[[Session], Awaitable[tuple[str, dict[str, object]]]],
) -> CallToolResult:
    """Do what is asked, if anything, and tell what stands then."""
    if action == look:
        async with hub.looking(machine) as opened:
            return result(*await told(opened.session))
    async with hub.acting(machine) as opened:
        await acts(opened.session)[action]()
        words, values = await told(opened.session)
    return result(f"{action}: done. {words}", {"action": action, **values})
