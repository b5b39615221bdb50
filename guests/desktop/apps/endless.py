"""A hostile application on the accessibility bus: a table of 2,147,483,647 children, and a child that holds its parent.

It speaks AT-SPI itself, without a toolkit. Asked for all children of the table, it ends.
"""

from __future__ import annotations

import asyncio
import os
import struct
from typing import Any

from reflexarc_agent.backends.linux.atspi import names
from reflexarc_agent.backends.linux.atspi.desktop import woken_address
from reflexarc_agent.backends.linux.atspi.roles import ROLES
from reflexarc_agent.backends.linux.dbus import message as m
from reflexarc_agent.backends.linux.dbus.bus import Bus, call_of
from reflexarc_agent.backends.linux.dbus.encoding import Variant

COLUMNS, CHILDREN = 1024, 2147483647
FIRST, LAST = (5, 2), (9, 4)
TITLES = {"root": "endless", "window": "Endless", "table": "Sheet", "loop": "Loop", "build": "Build"}
ROLES_OF = {
    "root": "application",
    "window": "frame",
    "table": "table",
    "loop": "panel",
    "build": "push-button",
}
BELOW = {
    "root": ["window"],
    "window": ["table", "loop", "build"],
    "loop": ["loop", "window", "root", "build"],
}
SHOWN = sum(names.STATE[state] for state in ("showing", "visible", "enabled", "sensitive"))
PREFIX = "/org/a11y/atspi/accessible/"


class Endless:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def key(self, name: str) -> tuple[str, str]:
        return self._bus.name, PREFIX + name

    def answer(self, call: m.Message) -> tuple[str, list[Any]] | None:
        name, member = call.text(m.PATH).removeprefix(PREFIX), call.text(m.MEMBER)
        row, column = (int(part) for part in name.split("_")[1:]) if name.startswith("cell_") else (0, 0)
        if member == "Get":
            return self.get(name, call.values()[1])
        if member == "GetChildren":
            if name == "table":
                os._exit(1)
            return "a(so)", [[self.key(below) for below in BELOW.get(name, [])]]
        if member == "GetAccessibleAtPoint":
            x, y, _ = call.values()
            row, column = FIRST if (x, y) == (102, 102) else LAST
            return "(so)", [self.key(f"cell_{row}_{column}")]
        if member == "GetAccessibleAt":
            return "(so)", [self.key("cell_{}_{}".format(*call.values()))]
        number = {"GetIndexInParent": row * COLUMNS + column}
        if member in ("GetRowAtIndex", "GetColumnAtIndex"):
            number[member] = divmod(call.values()[0], COLUMNS)[member == "GetColumnAtIndex"]
        if member in number:
            return "i", [number[member]]
        told: dict[str, tuple[str, list[Any]]] = {
            "GetRole": ("u", [ROLES.index(ROLES_OF.get(name, "table-cell"))]),
            "GetState": ("au", [list(struct.unpack("<2I", struct.pack("<Q", SHOWN)))]),
            "GetExtents": ("(iiii)", [(100, 100, 300, 200)]),
            "GetActions": ("a(sss)", [[]]),
        }
        return told.get(member)

    def get(self, name: str, what: str) -> tuple[str, list[Any]] | None:
        count = CHILDREN if name == "table" else len(BELOW.get(name, []))
        found = {
            "Name": Variant("s", TITLES.get(name, name)),
            "ChildCount": Variant("i", count),
            "ToolkitName": Variant("s", "none"),
            "Version": Variant("s", "0"),
        }
        return ("v", [found[what]]) if what in found else None


async def main() -> None:
    bus = await Bus.connect(await woken_address(os.environ))
    bus.on_call = Endless(bus).answer
    embed = call_of(
        names.REGISTRY, names.ROOT_PATH, "org.a11y.atspi.Socket.Embed", "(so)", (bus.name, PREFIX + "root")
    )
    await bus.call(embed, 5.0)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
