"""Elements as the wire's nodes: plain objects with AX names, and bounded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable

from reflexarc_agent.backends.linux.atspi.element import ENABLED, FOCUSED, Element
from reflexarc_agent.backends.linux.atspi.names import STATE
from reflexarc_agent.backends.linux.atspi.roles import AX_ACTIONS, AX_ROLES, TOGGLES

Name = Callable[[Element], str]
"""Gives an element its reference."""

CHECKED, PRESSED, MIXED = STATE["checked"], STATE["pressed"], STATE["indeterminate"]
DEPTH, NODES, BYTES = 64, 20_000, 24 << 20

_AX_ACTION = {native: ax for ax, natives in reversed(list(AX_ACTIONS.items())) for native in natives}


@dataclass
class Budget:
    """How much of a tree may still be told; `capped` names the first bound that was met."""

    depth: int = DEPTH
    nodes: int = NODES
    bytes: int = BYTES
    capped: str | None = None
    count: int = 0

    def spend(self, size: int) -> bool:
        """Take one node of so many bytes out of the budget; False where it doesn't fit."""
        if self.count >= self.nodes:
            self.capped = self.capped or "nodes"
        elif size > self.bytes:
            self.capped = self.capped or "bytes"
        else:
            self.count += 1
            self.bytes -= size
            return True
        return False


def node(element: Element, name: Name) -> dict[str, Any]:
    """An element as a node without children; fields that it has no value for are left out."""
    native = element.role
    role, subrole = AX_ROLES.get(native, (native, ""))
    told: dict[str, Any] = {"ref": name(element), "role": role}
    if subrole:
        told["subrole"] = subrole
    if role != native:
        told["native"] = native
    if element.name:
        told["title"] = element.name
    held = value(element)
    if held is not None:
        told["value"] = held
    told["enabled"] = bool(element.states & ENABLED)
    told["focused"] = bool(element.states & FOCUSED)
    frame = element.frame
    if frame:
        told["frame"] = {"x": frame.x, "y": frame.y, "w": frame.w, "h": frame.h}
    told["actions"] = list(ax_actions(element.actions))
    return told


def tree(root: Element, name: Name, budget: Budget) -> dict[str, Any]:
    """An element and those below it as nested nodes, as far as the budget goes."""
    top = _spend(root, name, budget) or {}
    stack = [(root, top, 1)]
    while stack:
        element, told, depth = stack.pop()
        told["children"] = []
        if element.capped:
            budget.capped = budget.capped or "children"
        if depth > budget.depth and element.children:
            budget.capped = budget.capped or "depth"
            continue
        entered = []
        for child in element.children:
            below = _spend(child, name, budget)
            if below is None:
                break
            told["children"].append(below)
            entered.append((child, below, depth + 1))
        stack.extend(reversed(entered))
    return top


def _spend(element: Element, name: Name, budget: Budget) -> dict[str, Any] | None:
    told = node(element, name)
    return told if budget.spend(node_bytes(element)) else None


def node_bytes(element: Element) -> int:
    """How much of a budget's bytes a node takes."""
    return 220 + 4 * len(element.name) + (4 * len(element.value) if isinstance(element.value, str) else 0)


def value(element: Element) -> str | float | None:
    """What an element holds: 0, 1 or 2 (mixed) of what can be checked, its text, or its number."""
    if element.role in TOGGLES:
        if element.states & MIXED:
            return 2
        return 1 if element.states & (CHECKED | PRESSED) else 0
    return element.value


@lru_cache(maxsize=1024)
def ax_actions(native: tuple[str, ...]) -> tuple[str, ...]:
    """The AX names of actions, where they have one; each once."""
    return tuple(dict.fromkeys(_AX_ACTION.get(action.lower(), action) for action in native if action))
