"""The actions of playbooks: their arguments, the capability each needs and the operation it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reflexarc.errors import ConfigError, PlaybookError
from reflexarc.machine import keys
from reflexarc.machine.policy import chord_operation, is_destructive
from reflexarc.playbook.format import ELEMENT, ELEMENT_TEXTS

# The types of arguments in which `{{ }}` is looked up.
TEMPLATED = frozenset({"string", "path", "texts", "mapping", "element", "element_text", "ref", "value"})


@dataclass(frozen=True)
class Argument:
    """One argument: its type, its default, its bounds.

    type: integer, number, boolean; key, chord; string; literal (text in which nothing is looked up); path (of a file
    on this host, or an address); pattern (a regular expression); coordinate (whole pixels, or a share of the screen
    from 0.0 to 1.0); integers, texts (lists); mapping (text to text); condition (the condition language); element (a
    selector), element_text (a part of one), ref (a registered reference), value (text, a number or true/false).
    choices: the texts that it may be. trusted: a value that came from a screen or a guest never gets into it.
    """

    type: str
    required: bool = False
    default: object = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    trusted: bool = False


@dataclass(frozen=True)
class Action:
    """One action. operation: None where nothing is sent to the machine.

    one_of: of each of these sets of alternatives exactly one is given, with all its arguments. selects: the arguments
    that tell an element, of which one text at least is given; or else `ref` is.
    """

    name: str
    capability: str | None
    operation: str | None
    arguments: Mapping[str, Argument]
    one_of: tuple[tuple[tuple[str, ...], ...], ...] = ()
    selects: tuple[str, ...] = ()

    @property
    def sends_input(self) -> bool:
        return self.operation is not None and not self.operation.startswith("observe.")

    @property
    def is_told_by_result(self) -> bool:
        """Whether its exit status, or a file, says what became of it, and no screen does."""
        return self.capability in ("shell", "files", "console")

    @property
    def needs(self) -> frozenset[str]:
        """The capabilities without which it can't be done; what is pointed at is on a screen."""
        own = frozenset() if self.capability is None else frozenset({self.capability})
        return own | {"screen"} if self.capability == "pointer" else own

    def templates(self, args: Mapping[str, object], *, trusted_only: bool = False) -> Iterator[str]:
        """Every text of the arguments in which names are looked up."""
        for name, argument in self.arguments.items():
            if argument.type in TEMPLATED and (argument.trusted or not trusted_only):
                yield from _texts(args.get(name))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for text in value.values() if isinstance(text, str))
    elif isinstance(value, list | tuple):
        yield from (text for text in value if isinstance(text, str))


def _action(
    name: str,
    capability: str | None,
    operation: str | None,
    /,
    *one_of: tuple[tuple[str, ...], ...],
    **arguments: Argument,
) -> Action:
    return Action(name, capability, operation, arguments, one_of)


_BUTTON = Argument("string", default="left", choices=("left", "middle", "right"))
_NAME = Argument("string", required=True)


def _aim(prefix: str = "") -> dict[str, Argument]:
    """The ways to say where on the screen."""
    return {
        f"{prefix}x": Argument("coordinate"),
        f"{prefix}y": Argument("coordinate"),
        f"{prefix}text": Argument("pattern"),
        f"{prefix}needle": Argument("literal"),
        f"{prefix}image": Argument("literal"),
        f"{prefix}element": Argument("element"),
    }


def _ways(prefix: str = "") -> tuple[tuple[str, ...], ...]:
    """The alternatives of an aim, of which one is given."""
    one = tuple((f"{prefix}{way}",) for way in ("text", "needle", "element"))
    return ((f"{prefix}x", f"{prefix}y"), *one)


def _time_limit(seconds: float, most: float = 86_400) -> Argument:
    return Argument("number", default=seconds, minimum=1, maximum=most)


_INPUT = (
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
    _action("click", "pointer", "pointer.click", _ways(), **_aim(), button=_BUTTON),
    _action("double_click", "pointer", "pointer.click", _ways(), **_aim(), button=_BUTTON),
    _action("move", "pointer", "pointer.move", _ways(), **_aim()),
    _action(
        "drag", "pointer", "pointer.drag", _ways(), _ways("to_"), **_aim(), **_aim("to_"), button=_BUTTON
    ),
    _action(
        "scroll",
        "pointer",
        "pointer.scroll",
        ((), *_ways()),
        **_aim(),
        dx=Argument("integer", default=0, minimum=-100, maximum=100),
        dy=Argument("integer", default=0, minimum=-100, maximum=100),
    ),
)


def _on_element(name: str, operation: str, *left_out: str, **more: Argument) -> Action:
    """An action on an element, told by what it is or by a reference."""
    texts = {key: Argument("element_text") for key in ELEMENT_TEXTS if key not in left_out}
    flags = {key: Argument("boolean") for key in ELEMENT if key not in ELEMENT_TEXTS}
    selects = {**texts, **flags}
    arguments = {**selects, "ref": Argument("ref"), **more}
    return Action(name, "accessibility", operation, arguments, selects=tuple(selects))


_ELEMENTS = (
    _on_element("ax_press", "accessibility.action"),
    _on_element("ax_action", "accessibility.action", action=Argument("string", required=True)),
    _on_element("ax_set_value", "accessibility.set_value", "value", value=Argument("value", required=True)),
    _on_element("ax_focus", "accessibility.focus"),
)

_GUEST = (
    _action("launch_app", "apps", "apps.launch", name=_NAME),
    _action(
        "exec",
        "shell",
        "shell.exec",
        (("command",), ("argv",)),
        command=Argument("string", trusted=True),
        argv=Argument("texts"),
        cwd=Argument("string"),
        env=Argument("mapping"),
        timeout=_time_limit(300),
        ok_codes=Argument("integers", default=(0,), minimum=0, maximum=255),
    ),
    _action(
        "run_serial",
        "console",
        "console.run",
        command=Argument("string", required=True, trusted=True),
        timeout=_time_limit(60),
        ok_codes=Argument("integers", default=(0,), minimum=0, maximum=255),
    ),
    _action(
        "upload",
        "files",
        "files.write",
        source=Argument("path", required=True, trusted=True),
        target=Argument("string", required=True),
        executable=Argument("boolean", default=False),
        timeout=_time_limit(600),
    ),
    _action(
        "download",
        "files",
        "files.read",
        source=Argument("string", required=True),
        target=Argument("path", required=True, trusted=True),
        timeout=_time_limit(600),
    ),
)

_DEVICE = (
    _action("power_on", "power", "power.on"),
    _action("shutdown", "power", "power.shutdown", timeout=_time_limit(120, 3600)),
    _action("hard_off", "power", "power.off"),
    _action("reset", "power", "power.reset"),
    _action("hard_cycle", "power", "power.cycle"),
    _action(
        "mount_iso",
        "media",
        "media.mount",
        source=Argument("path", required=True, trusted=True),
        cdrom=Argument("boolean", default=True),
    ),
    _action("msd_disconnect", "media", "media.eject"),
    _action(
        "set_boot_device",
        "boot",
        "boot.set_device",
        device=Argument("string", required=True, choices=("cdrom", "disk", "network", "none")),
        once=Argument("boolean", default=False),
    ),
    _action("snapshot", "snapshot", "snapshot.save", name=_NAME),
    _action("rollback", "snapshot", "snapshot.restore", name=_NAME),
    _action("freeze", "freeze", "freeze.on"),
    _action("unfreeze", "freeze", "freeze.off"),
)

_RUN = (
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

_NAMED = {action.name: action for action in (*_INPUT, *_ELEMENTS, *_GUEST, *_DEVICE, *_RUN)}
# By every name that a playbook may use; an alias leads to the action of its own name.
ACTIONS: Mapping[str, Action] = {**_NAMED, "eject": _NAMED["msd_disconnect"]}


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
