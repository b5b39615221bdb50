"""The operations there are, their effect classes, and what a machine's owner allows to whom.

An operation that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reflexarc.errors import SafetyError

EVIDENCE_MAX_AGE = 2.0
"""Seconds after which evidence is too old for a destructive operation."""

# operation -> is it destructive; its class is the part before the dot, save for those in _CLASS_OF, which
# has operations, and parts before the dot.
OPERATIONS: Mapping[str, bool] = {
    "observe.frames": False,
    "observe.text": False,
    "observe.power": False,
    "observe.console": False,
    "observe.media": False,
    "observe.boot": False,
    "observe.snapshots": False,
    "observe.freeze": False,
    "observe.tree": False,
    "keyboard.press": False,
    "keyboard.type": False,
    "pointer.move": False,
    "pointer.click": False,
    "pointer.drag": False,
    "pointer.scroll": False,
    "console.write": False,
    "accessibility.action": False,
    "accessibility.set_value": False,
    "accessibility.focus": False,
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
    "keyboard": "input", "pointer": "input", "console": "input", "apps": "input", "accessibility": "input",
    "console.run": "shell",
}  # fmt: skip

RECORDED = ("observe.frames", "observe.text", "observe.console", "observe.tree")
"""What the record of a run holds of its machine: who reads it needs them all."""

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

    def within(self, other: Policy) -> Policy:
        """What both allow."""
        return Policy(_both(self.people, other.people), _both(self.agents, other.agents))

    def check(self, operation: str, *, agent: bool, machine: str) -> None:
        """Raise SafetyError where the policy doesn't allow the operation to this kind of caller."""
        if covers(self.agents if agent else self.people, operation):
            return
        who = "agents" if agent else "people"
        raise SafetyError(
            f"{machine}: the policy does not allow {operation} to {who}; an operator can add {operation!r}, or all of "
            f"{effect_class(operation)!r}, to allow.{who} in the inventory, and in the system's policy if there is one",
            rule=f"allow.{who}",
            operation=operation,
        )

    def check_run(self, operation: str, *, agent: bool, machine: str) -> None:
        """Raise SafetyError where the policy doesn't allow this kind of caller at the runs of the machine.

        operation: `run.read` takes all that the record of a run holds; `run.begin`, `run.reply` and `run.cancel`, more
        than looking, for a run holds its machine up and acts on it.
        """
        if operation == "run.read":
            for reading in RECORDED:
                self.check(reading, agent=agent, machine=machine)
            return
        allowed = self.agents if agent else self.people
        if any(covers(allowed, one) for one in OPERATIONS if not one.startswith("observe.")):
            return
        who, verb = "agents" if agent else "people", operation.removeprefix("run.")
        raise SafetyError(
            f"{machine}: the policy lets {who} look only, so that a person must {_VERBS.get(verb, verb)} a run; an "
            f"operator can add what its steps do, such as 'input', to allow.{who} in the inventory",
            rule=f"allow.{who}",
            operation=operation,
        )


_VERBS = {"reply": "answer", "cancel": "end"}


def _both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    if "*" in first or "*" in second:
        return second if "*" in first else first
    return tuple(name for name in OPERATIONS if covers(first, name) and covers(second, name))


# The letters to which Magic SysRq answers with a reset, a crash or the power switched off, by their place on a
# US board whatever the layout. Source: Linux kernel documentation, admin-guide/sysrq; drivers/tty/sysrq.c.
_SYSRQ = {"b": "power.reset", "c": "power.reset", "o": "power.off"}
_KEYS = {"power": "power.shutdown", "sleep": "power.shutdown", "wake": "power.on"}


def set_off(down: Collection[str], *, sysrq: bool = False) -> frozenset[tuple[str, str]]:
    """The power operations that keys held down together cause, each with the key that sets it off.

    sysrq: Magic SysRq listens though its key was let go again.
    Source: beside Magic SysRq, the BIOS and Linux console convention of Ctrl+Alt+Delete.
    """
    keys = {key.removesuffix("_r") for key in down}
    found = {(operation, key) for key, operation in _KEYS.items() if key in keys}
    if {"ctrl", "alt"} <= keys:
        found |= {("power.reset", key) for key in ("delete", "kp_dot") if key in keys}
    if sysrq or ("alt" in keys and keys & {"sysrq", "print"}):
        found |= {(operation, key) for key, operation in _SYSRQ.items() if key in keys}
    return frozenset(found)


def chord_operation(down: Collection[str]) -> str | None:
    """Return the power operation that keys held down together cause, None where it is plain input.

    Of several it is a destructive one, where any is.
    """
    found = {operation for operation, _ in set_off(down)}
    return min(found, key=lambda operation: (not is_destructive(operation), operation), default=None)
