"""An application on the accessibility bus that takes long to tell of its children, and has a button that is being made.

Asked the first time, the button says neither what it is nor that it shows; that it is ready it tells by no event.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from typing import Any

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.desktop import woken_address
from reflexarc_agent.backends.linux.atspi.roles import ROLES
from reflexarc_agent.backends.linux.dbus import message as m
from reflexarc_agent.backends.linux.dbus.bus import Bus, call_of
from reflexarc_agent.backends.linux.dbus.encoding import Variant

DEPTH, SECONDS = 15, 0.1
"""How many elements are in each other, the innermost a button, and how long each takes to tell of the one in it."""

SHOWN = sum(names.STATE[state] for state in ("showing", "visible", "enabled", "sensitive"))
PREFIX = "/org/a11y/atspi/accessible/"


class Slow:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._asked: set[str] = set()

    def answer(self, call: m.Message) -> tuple[str, list[Any]] | None:
        path, member = call.text(m.PATH), call.text(m.MEMBER)
        if path == names.CACHE_PATH:
            return None
        level = 0 if path == names.ROOT_PATH else int(path.removeprefix(PREFIX))
        if member == "GetChildren":
            time.sleep(SECONDS)
            below = [(self._bus.name, f"{PREFIX}{level + 1}")] if level < DEPTH else []
            return "a(so)", [below]
        if member == "Get":
            return self.get(level, call.values()[1])
        made = level < DEPTH or member in self._asked
        if level == DEPTH:
            self._asked.add(member)
        if member == "GetRole":
            roles = {0: "application", 1: "frame", DEPTH: "push-button" if made else "invalid"}
            return "u", [ROLES.index(roles.get(level, "panel"))]
        if member == "GetState":
            return "au", [list(struct.unpack("<2I", struct.pack("<Q", SHOWN if made else 0)))]
        return ("(iiii)", [(100, 100, 300, 200)]) if member == "GetExtents" else None

    def get(self, level: int, what: str) -> tuple[str, list[Any]] | None:
        found = {
            "Name": Variant("s", {0: "slow", 1: "Slow", DEPTH: "Build"}.get(level, "")),
            "ChildCount": Variant("i", int(level < DEPTH)),
            "ToolkitName": Variant("s", "none"),
            "Version": Variant("s", "0"),
        }
        return ("v", [found[what]]) if what in found else None


async def main() -> None:
    bus = await Bus.connect(await woken_address(os.environ))
    bus.on_call = Slow(bus).answer
    embed = call_of(
        names.REGISTRY, names.ROOT_PATH, "org.a11y.atspi.Socket.Embed", "(so)", (bus.name, names.ROOT_PATH)
    )
    await bus.call(embed, 5.0)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
