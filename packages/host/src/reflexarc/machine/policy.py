"""The operations there are, their effect classes, and what a machine's owner allows to whom.

An operation that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reflexarc.errors import SafetyError

# operation -> is it destructive; its class is the part before the dot, save for those in _CLASS_OF, which
# has operations, and parts before the dot.
OPERATIONS: Mapping[str, bool] = {
    "observe.frames": False,
    "observe.text": False,
    "keyboard.press": False,
    "keyboard.type": False,
    "pointer.move": False,
    "pointer.click": False,
    "pointer.drag": False,
    "pointer.scroll": False,
    "console.write": False,
    "apps.launch": False,
    "shell.exec": False,
    "console.run": False,
    "files.read": False,
    "files.write": False,
    "power.on": False,
    "power.shutdown": True,
    "power.off": True,
    "power.reset": True,
    "power.cycle": True,
    "media.mount": True,
    "media.eject": True,
    "boot.set_device": True,
    "snapshot.save": False,
    "snapshot.restore": True,
    "snapshot.delete": True,
    "freeze.on": False,
    "freeze.off": False,
    "step.destructive": True,
}

_CLASS_OF = {
    "keyboard": "input", "pointer": "input", "console": "input", "apps": "input", "console.run": "shell",
}  # fmt: skip

CLASSES = frozenset(
    {"observe", "input", "shell", "files", "power", "media", "boot", "snapshot", "freeze", "step"}
)


def effect_class(operation: str) -> str:
    """Return the class that a policy names for the operation; raises SafetyError where it is not listed."""
    if operation not in OPERATIONS:
        raise SafetyError(f"there is no operation {operation!r}", rule="unlisted", operation=operation)
    prefix = operation.split(".", 1)[0]
    return _CLASS_OF.get(operation) or _CLASS_OF.get(prefix, prefix)


def is_destructive(operation: str) -> bool:
    """Tell whether the operation needs authorisation; raises SafetyError where it is not listed."""
    effect_class(operation)
    return OPERATIONS[operation]


def covers(names: Collection[str], operation: str) -> bool:
    """Tell whether operation or class names (`*` and `power.*` too) take in the operation."""
    group = effect_class(operation)
    return any(name in (operation, group) or fnmatchcase(operation, name) for name in names)


@dataclass(frozen=True)
class Policy:
    """What the owner of a machine allows: operation or class names for people, and for AI agents."""

    people: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("observe",)

    def check(self, operation: str, *, agent: bool, machine: str) -> None:
        """Raise SafetyError where the policy doesn't allow the operation to this kind of caller."""
        if covers(self.agents if agent else self.people, operation):
            return
        who = "agents" if agent else "people"
        raise SafetyError(
            f"{machine}: the policy does not allow {operation} to {who}; "
            f"an operator can add {effect_class(operation)!r} to its allow.{who} in the inventory",
            rule=f"allow.{who}",
            operation=operation,
        )


def chord_operation(down: Collection[str]) -> str | None:
    """Return the power operation that keys held down together cause, None where it is plain input.

    Source: Linux kernel documentation, admin-guide/sysrq (b reboots, o powers off, c crashes);
    the BIOS and Linux console convention of Ctrl+Alt+Delete.
    """
    keys = {key.removesuffix("_r") for key in down}
    if "power" in keys or "sleep" in keys:
        return "power.shutdown"
    if {"ctrl", "alt", "delete"} <= keys or {"ctrl", "alt", "kp_dot"} <= keys:
        return "power.reset"
    if "alt" in keys and keys & {"sysrq", "print"}:
        if keys & {"b", "c"}:
            return "power.reset"
        if "o" in keys:
            return "power.off"
    return None
