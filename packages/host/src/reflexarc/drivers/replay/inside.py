"""What a recording says of the inside of its guest."""

from __future__ import annotations

from collections.abc import Mapping

from reflexarc.drivers.replay.script import Agent, Ran, ReplayGuest
from reflexarc.machine.accessibility import Area, Element

_GUEST_KEYS = frozenset({"commands", "files", "apps", "elements", "agent"})
_ELEMENT_KEYS = frozenset(
    {"ref", "role", "native", "name", "value", "enabled", "focused", "area", "actions", "path"}
)


def guest_of(record: Mapping[str, object]) -> ReplayGuest:
    """The inside of a guest; raises ValueError for what is none."""
    raw = _mapping(record["guest"], "guest")
    _known(raw, _GUEST_KEYS)
    commands = _mapping(raw.get("commands", {}), "commands")
    files = _mapping(raw.get("files", {}), "files")
    return ReplayGuest(
        {line: _ran(what) for line, what in commands.items()},
        {path: _text(text, "files").encode() for path, text in files.items()},
        frozenset(_texts(raw.get("apps", []), "apps")),
        elements_of(raw),
        agent_of(raw) or Agent.ANSWERS,
    )


def agent_of(record: Mapping[str, object]) -> Agent | None:
    """How the inside answers from then on; raises ValueError for an unknown word."""
    return None if record.get("agent") is None else Agent(record["agent"])


def elements_of(record: Mapping[str, object]) -> tuple[Element, ...] | None:
    """What the tree holds from then on; raises ValueError for what is no element."""
    raw = record.get("elements")
    if raw is None:
        return None
    if not isinstance(raw, list):
        raise ValueError("`elements` must be a list")
    return tuple(_element(_mapping(one, "elements")) for one in raw)


def _element(raw: Mapping[str, object]) -> Element:
    _known(raw, _ELEMENT_KEYS)
    ref, value, area = raw.get("ref"), raw.get("value"), raw.get("area")
    if not isinstance(ref, str | int) or isinstance(ref, bool):
        raise ValueError("an element needs a `ref`, a text or a whole number")
    if not isinstance(value, str | int | float | None):
        raise ValueError("the `value` of an element is text, a number or true/false")
    sides = [float(side) for side in area if isinstance(side, int | float)] if isinstance(area, list) else []
    if area is not None and len(sides) != 4:
        raise ValueError("the `area` of an element is [x, y, width, height]")
    return Element(
        ref,
        _text(raw.get("role"), "role"),
        _text(raw.get("native", ""), "native"),
        name=_text(raw.get("name", ""), "name"),
        value=value,
        enabled=_flag(raw, "enabled"),
        focused=_flag(raw, "focused"),
        area=Area(*sides) if sides else None,
        actions=_texts(raw.get("actions", []), "actions"),
        path=_texts(raw.get("path", []), "path"),
    )


def _ran(raw: object) -> Ran:
    ran = _mapping(raw, "commands")
    _known(ran, frozenset({"stdout", "stderr", "status"}))
    status = ran.get("status", 0)
    if status is not None and (not isinstance(status, int) or not 0 <= status <= 255):
        raise ValueError(f"`status` must be from 0 to 255, or null, not {status!r}")
    out, err = (_text(ran.get(name, ""), name).encode() for name in ("stdout", "stderr"))
    return Ran(out, err, status)


def _known(raw: Mapping[str, object], keys: frozenset[str]) -> None:
    unknown = set(raw) - keys
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")


def _mapping(raw: object, name: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        raise ValueError(f"`{name}` must be of JSON objects, not {raw!r:.80}")
    return raw


def _text(raw: object, name: str) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"`{name}` must be a text in quotes, not {raw!r:.80}")
    return raw


def _texts(raw: object, name: str) -> tuple[str, ...]:
    if not isinstance(raw, list):
        raise ValueError(f"`{name}` must be a list of texts")
    return tuple(_text(one, name) for one in raw)


def _flag(raw: Mapping[str, object], name: str) -> bool | None:
    value = raw.get(name)
    if not isinstance(value, bool | None):
        raise ValueError(f"`{name}` must be true or false, not {value!r:.80}")
    return value
