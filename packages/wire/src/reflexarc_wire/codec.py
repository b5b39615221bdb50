"""Dataclasses to JSON objects and back, by their annotations.

A field's name on the wire is its own unless `named` gives another. None means absent, both ways; bytes travel
as base64; fields that a class doesn't have are ignored.
"""

from __future__ import annotations

import base64
import dataclasses
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Dict,
    Literal,
    Mapping,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from reflexarc_wire.errors import WireError

T = TypeVar("T")
_Read = Callable[[object], object]
_SCALARS = frozenset({str, int, float, bool, type(None)})


def named(wire_name: str, *, required: bool = False) -> Any:
    """Declare a field whose name on the wire differs; None is its default unless it is required."""
    metadata = {"wire": wire_name}
    return (
        dataclasses.field(metadata=metadata)
        if required
        else dataclasses.field(default=None, metadata=metadata)
    )


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    wire: str
    required: bool
    read: _Read


def from_object(kind: Type[T], values: Mapping[str, object]) -> T:
    """Build a `kind` from an object's fields; raises WireError where one is missing or of a wrong sort."""
    found = {}
    for member in _members(cast(Any, kind)):
        value = values.get(member.wire)
        if value is not None:
            found[member.name] = _read_member(member, value)
        elif member.required:
            raise WireError(f"{member.wire} is missing")
    return kind(**found)


def to_object(value: object) -> Dict[str, object]:
    """Return a dataclass's fields as JSON values, without those that are None."""
    fields = ((member, getattr(value, member.name)) for member in _members(cast(Any, type(value))))
    return {member.wire: _json(item) for member, item in fields if item is not None}


@lru_cache(maxsize=None)
def _members(kind: Any) -> Tuple[_Member, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Member(
            field.name,
            field.metadata.get("wire", field.name),
            field.default is dataclasses.MISSING,
            _reader(hints[field.name]),
        )
        for field in dataclasses.fields(kind)
    )


def _read_member(member: _Member, value: object) -> object:
    try:
        return member.read(value)
    except WireError as error:
        raise WireError(f"{member.wire}: {error}") from error


def _json(value: object) -> object:
    # Nearly all values of a large tree are these; to ask of each whether it is a mapping would cost more than JSON.
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (tuple, list)):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return to_object(value) if dataclasses.is_dataclass(value) else value


def _reader(hint: Any) -> _Read:
    if dataclasses.is_dataclass(hint):
        return lambda value: from_object(cast(type, hint), _as(dict, "an object", value))
    build = _READERS.get(cast(Any, get_origin(hint)))
    return build(get_args(hint)) if build else _PLAIN[hint]


def _read_union(options: Tuple[Any, ...]) -> _Read:
    readers = [_reader(option) for option in options if option is not type(None)]

    def read(value: object) -> object:
        for reader in readers[:-1]:
            try:
                return reader(value)
            except WireError:
                continue
        return readers[-1](value)

    return read


def _read_literal(choices: Tuple[Any, ...]) -> _Read:
    def read(value: object) -> object:
        if value not in choices:
            raise WireError(f"must be one of {', '.join(map(str, choices))}")
        return value

    return read


def _read_tuple(arguments: Tuple[Any, ...]) -> _Read:
    item = _reader(arguments[0])
    return lambda value: tuple(item(each) for each in _as(list, "a list", value))


def _read_dict(arguments: Tuple[Any, ...]) -> _Read:
    item = _reader(arguments[1])
    return lambda value: {key: item(each) for key, each in _as(dict, "an object", value).items()}


def _as(kind: Type[T], called: str, value: object) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError(f"must be {called}")
    return value


def _read_float(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) < 1e15:
            return value
        raise WireError("must be a smaller number")
    raise WireError("must be a number")


def _read_int(value: object) -> int:
    if abs(_as(int, "a whole number", value)) >= 1 << 63:
        raise WireError("must be a smaller number")
    return cast(int, value)


def _read_bytes(value: object) -> bytes:
    try:
        return base64.b64decode(_as(str, "base64", value), validate=True)
    except ValueError as error:
        raise WireError("must be base64") from error


_PLAIN: Mapping[Any, _Read] = {
    str: lambda value: _as(str, "a string", value),
    bool: lambda value: _as(bool, "true or false", value),
    int: _read_int,
    float: _read_float,
    bytes: _read_bytes,
    object: lambda value: value,
}

_READERS: Mapping[Any, Callable[[Tuple[Any, ...]], _Read]] = {
    Union: _read_union,
    Literal: _read_literal,
    tuple: _read_tuple,
    dict: _read_dict,
}
