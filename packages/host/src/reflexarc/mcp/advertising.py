"""What the tool `computer` tells of itself: actions on elements only where there may be elements."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool

from reflexarc.inventory.entries import Entry
from reflexarc.machine.policy import covers

ON_ELEMENTS = frozenset(
    (
        "ax_dump",
        "ax_find",
        "ax_element_at",
        "ax_press",
        "ax_action",
        "ax_set_value",
        "ax_focus",
        "ax_wait",
        "launch_app",
    )
)
ARGUMENTS = ("ref", "value", "role", "name")
PIXELS = (
    "Look at and act on a machine's screen, keyboard and pointer.\n\nCoordinates are those of the last image of this "
    "machine. An act answers with what changed, not with the whole screen."
)


PATIENCE = 1.0
"""Seconds after which an agent that says nothing isn't there."""


TAKEN_ALONE = frozenset(("reverse", "virtio_serial", "stdio"))
"""Ways to an agent that one program has at a time, or that start one: not asked by the clock."""


def may_offer(entry: Entry) -> bool:
    """Tell whether the drivers of a machine may lend the tree of its desktop, or its applications."""
    agent = entry.settings.get("agent", {})
    return "agent" in entry.drivers and agent.get("enabled") is True


def may_look(entry: Entry) -> bool:
    """Tell whether agents may see the tree of its desktop, where there is one."""
    return covers(entry.policy.agents, "observe.tree")


def is_taken_alone(entry: Entry) -> bool:
    """Tell whether asking its agent keeps other programs from it."""
    return entry.settings.get("agent", {}).get("transport") in TAKEN_ALONE


def without_elements(tool: Tool) -> Tool:
    """The tool for machines without elements: pixels only."""
    schema = dict(tool.input_schema)
    properties: dict[str, Any] = {k: v for k, v in schema["properties"].items() if k not in ARGUMENTS}
    actions = [action for action in properties["action"]["enum"] if action not in ON_ELEMENTS]
    properties["action"] = {**properties["action"], "enum": actions}
    schema["properties"] = properties
    return tool.model_copy(update={"input_schema": schema, "description": PIXELS})
