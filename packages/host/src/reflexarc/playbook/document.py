"""YAML or JSON text to plain data, with the place of every key and item; safe and bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from reflexarc.errors import PlaybookError
from reflexarc.plainfiles import read_plain

if TYPE_CHECKING:
    import yaml

Path = tuple[str | int, ...]

MAX_CHARACTERS = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 40
MAX_INTEGER = 2**63
_EXPONENT = re.compile(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?[eE][-+]?[0-9]{1,4}")

_SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null"))


@dataclass(frozen=True)
class Document:
    """Plain data (mappings, lists, strings, numbers, booleans, None) and where each part stands.

    places: path -> (line, column), counted from 1. name: what errors call the text. origins: path -> the name of
    the text that the part from there on comes from, where that is another.
    """

    data: object
    places: Mapping[Path, tuple[int, int]]
    name: str | None = None
    origins: Mapping[Path, str] = field(default_factory=dict)

    def error(self, path: Path, message: str) -> PlaybookError:
        """A PlaybookError that points at the path, or at its nearest parent that has a place."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                line, column = self.places[path[:length]]
                return PlaybookError(message, path=self._origin(path), line=line, column=column)
        return PlaybookError(f"{_spell(path)}: {message}" if path else message, path=self.name)

    def _origin(self, path: Path) -> str | None:
        nearest = (path[:length] for length in range(len(path), -1, -1) if path[:length] in self.origins)
        found = next(nearest, None)
        return self.name if found is None else self.origins[found]


def _spell(path: Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".")


def read(path: FilePath) -> str:
    """The text of a file; raises PlaybookError where it is no plain one, can't be read or is too large."""
    try:
        raw = read_plain(path, 4 * MAX_CHARACTERS)
        if len(raw) > 4 * MAX_CHARACTERS:
            raise PlaybookError(f"larger than {MAX_CHARACTERS:,} characters", path=str(path))
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlaybookError(f"can't read the playbook: {reason}", path=str(path)) from error


def parse(text: str, name: str | None = None) -> Document:
    """Read YAML or JSON.

    Raises PlaybookError, with line and column, for bad syntax, duplicate keys, types beyond JSON's and texts
    that are too large.
    """
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise PlaybookError(f"larger than {MAX_CHARACTERS:,} characters", path=name)
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise PlaybookError(
            f"{error.problem or 'not YAML'}" + (f" ({error.context})" if error.context else ""),
            path=name,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise PlaybookError(f"not YAML: {error}", path=name) from error
    except RecursionError as error:
        raise PlaybookError("nested too deeply", path=name) from error
    builder = _Builder(name, is_json=text.lstrip()[:1] in ("{", "["))
    data = builder.build(node, ()) if node is not None else None
    return Document(data, builder.places, name)


def of_data(data: object, name: str | None = None) -> Document:
    """Wrap data that is already plain, such as a journal's or an agent's; errors then name paths."""
    try:
        return Document(json.loads(json.dumps(data)), {}, name)
    except (TypeError, ValueError, RecursionError) as error:
        raise PlaybookError(f"not plain data: {error}", path=name) from error


class _Builder:
    def __init__(self, name: str | None, *, is_json: bool) -> None:
        import yaml

        self.name = name
        self._is_json = is_json
        self.places: dict[Path, tuple[int, int]] = {}
        self._nodes = 0
        self._yaml = yaml
        self._construct = yaml.SafeLoader("")

    def build(self, node: yaml.Node, path: Path) -> object:
        self._nodes += 1
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise self._error(node, "too many or too deeply nested values")
        if isinstance(node, self._yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, self._yaml.SequenceNode):
            return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> object:
        if node.tag not in _SCALARS:
            raise self._error(
                node, f"a value of type {node.tag.rsplit(':', 1)[-1]} has no place here; quote it"
            )
        try:
            value: object = self._construct.construct_object(node)
        except (ValueError, self._yaml.YAMLError) as error:
            raise self._error(node, f"not a value: {error}") from error
        if (
            self._is_json
            and isinstance(value, str)
            and getattr(node, "style", None) is None
            and _EXPONENT.fullmatch(value)
        ):
            # To YAML 1.1 an exponent without point or sign is text.
            value = float(value)
        if isinstance(value, bool) and node.value.lower() not in ("true", "false"):
            # YAML 1.1 has on, off, yes and no for these; here they are words, as in JSON and YAML 1.2.
            return str(node.value)
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            raise self._error(node, "the text holds half a character (a surrogate), which can't be written")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise self._error(node, "the number is too large")
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, self._yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                raise self._error(key_node, "keys are words; quote this one")
            if key in result:
                raise self._error(key_node, f"the key {key!r} stands here twice")
            self.places[(*path, key)] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            result[key] = self.build(value_node, (*path, key))
        return result

    def _error(self, node: yaml.Node, message: str) -> PlaybookError:
        mark = node.start_mark
        return PlaybookError(message, path=self.name, line=mark.line + 1, column=mark.column + 1)
