"""Events of the journal as JSON, and back."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from reflexarc.playbook.events import EVENTS, Event


def encode(event: Event) -> tuple[str, str]:
    """Kind and JSON body of an event; fields at their defaults are left out."""
    return type(event).__name__.lower(), _ENCODER.encode(_told(event))


def decode(kind: str, body: str) -> Event:
    """The event again; raises ValueError for anything that `encode` didn't write."""
    cls = EVENTS.get(kind)
    if cls is None:
        raise ValueError(f"there is no event {kind!r}")
    try:
        event: Event = _build(cls, json.loads(body))
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a {kind} event: {error}") from error
    return event


@lru_cache
def _fields(cls: Hashable) -> Sequence[tuple[str, object]]:
    """Names and defaults of a dataclass."""
    return [(f.name, f.default) for f in dataclasses.fields(typing.cast("type[Any]", cls))]


def _told(value: object) -> dict[str, object]:
    """The fields of a dataclass that are not at their defaults."""
    found = value.__dict__ if hasattr(value, "__dict__") else None
    told = {}
    for name, default in _fields(typing.cast("Hashable", type(value))):
        field = getattr(value, name) if found is None else found[name]
        if default is dataclasses.MISSING or field != default:
            told[name] = field
    return told


def _json(value: object) -> object:
    """What JSON knows of a value that it doesn't know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    return _told(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_json)


def plain(value: object) -> Any:
    """Dataclasses, enums, tuples and mappings as what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(field) for name, field in _told(value).items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [plain(item) for item in value]
    return value


@lru_cache
def _hints(cls: Hashable) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _build(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        cls = typing.cast("type[Any]", hint)
        hints = _hints(typing.cast("Hashable", cls))
        return cls(**{name: _build(hints[name], item) for name, item in value.items()})
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _build_union(arguments, value)
    if origin is tuple:
        items = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(items) != len(value):
            raise TypeError(f"{len(items)} items expected, {len(value)} found")
        return tuple(_build(item_hint, item) for item_hint, item in zip(items, value, strict=True))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _checked(hint if origin is None else origin, value)


def _build_union(arguments: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    for argument in arguments:
        if argument is not type(None):
            try:
                return _build(argument, value)
            except TypeError:
                continue
    raise TypeError(f"{value!r} fits none of {arguments}")


def _checked(cls: Any, value: Any) -> Any:
    if isinstance(cls, type) and cls is not object and not isinstance(value, cls):
        raise TypeError(f"{value!r} is no {cls.__name__}")
    return value
