"""The actions of playbooks: their arguments, the capability each needs and the operation it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reflexarc.errors import ConfigError, PlaybookError
from reflexarc.machine import keys
from reflexarc.machine.policy import chord_operation, is_destructive


@dataclass(frozen=True)
class Argument:
    """One argument: its type (`condition` for the condition language), its default, its bounds."""

    type: str
    required: bool = False
    default: object = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Action:
    """One action. operation: None where nothing is sent to the machine."""

    name: str
    capability: str | None
    operation: str | None
    arguments: Mapping[str, Argument]

    @property
    def sends_input(self) -> bool:
        return self.operation is not None and not self.operation.startswith("observe.")


def _action(name: str, capability: str | None, operation: str | None, **arguments: Argument) -> Action:
    return Action(name, capability, operation, arguments)


ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        _action(
            "press_key",
            "keyboard",
            "keyboard.press",
            key=Argument("key", required=True),
            times=Argument("integer", default=1, minimum=1, maximum=200),
        ),
        _action("hotkey", "keyboard", "keyboard.press", chord=Argument("chord", required=True)),
        _action(
            "press_until",
            "keyboard",
            "keyboard.press",
            key=Argument("key", required=True),
            until=Argument("condition", required=True),
            max=Argument("integer", default=50, minimum=1, maximum=1000),
        ),
        _action(
            "type_text",
            "keyboard",
            "keyboard.type",
            text=Argument("string", required=True),
            enter=Argument("boolean", default=False),
            secret=Argument("boolean", default=False),
        ),
        _action("power_on", "power", "power.on"),
        _action(
            "shutdown",
            "power",
            "power.shutdown",
            timeout=Argument("number", default=120.0, minimum=1, maximum=3600),
        ),
        _action("hard_off", "power", "power.off"),
        _action("reset", "power", "power.reset"),
        _action("hard_cycle", "power", "power.cycle"),
        _action("screenshot", "screen", "observe.frames"),
        _action("wait", None, None, seconds=Argument("number", required=True, minimum=0, maximum=86_400)),
        _action("note", None, None, text=Argument("string", required=True)),
        _action("fail", None, None, message=Argument("string", required=True)),
        _action(
            "assert",
            None,
            None,
            that=Argument("condition", required=True),
            message=Argument("string", default=""),
        ),
    )
}


def operation_of(action: Action, arguments: Mapping[str, object]) -> str | None:
    """The operation that the action is with these arguments: a chord may be a power operation."""
    pressed = arguments.get("chord") or arguments.get("key")
    if action.operation == "keyboard.press" and isinstance(pressed, str):
        return chord_operation(keys.chord(pressed)) or action.operation
    return action.operation


def needs_authorisation(action: Action | None, operation: str | None, *, declared: bool) -> str | None:
    """The operation name that must be authorised before the step fires, None where none must be."""
    if operation is not None and is_destructive(operation):
        return operation
    return "step.destructive" if declared and action is not None else None


def check_keys(argument: Argument, value: str) -> None:
    """Raise PlaybookError where a key or chord doesn't exist."""
    try:
        found = keys.chord(value)
    except ConfigError as error:
        raise PlaybookError(str(error)) from error
    if argument.type == "key" and len(found) > 1:
        raise PlaybookError(f"{value!r} is a chord; use the action hotkey for it")
