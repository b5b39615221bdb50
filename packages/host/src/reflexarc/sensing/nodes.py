"""Reading the nodes of a YAML file, each mistake told with its path and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from reflexarc.errors import ConfigError
from reflexarc.plainfiles import read_plain

if TYPE_CHECKING:
    import yaml

_MAX_FILE = 1 << 20


class NodeReader:
    """Reads what is expected out of the nodes of one file, and raises ConfigError where it isn't there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def document(self) -> yaml.Node | None:
        """The root of the file, None where it is empty."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            raw = read_plain(self.path, _MAX_FILE)
            if len(raw) > _MAX_FILE:
                raise ConfigError("the file is larger than 1 MiB", path=self.path)
            text = raw.decode("utf-8")
            for event in yaml.parse(text, Loader=loader):
                if isinstance(event, yaml.AliasEvent):
                    line = event.start_mark.line + 1 if event.start_mark else None
                    raise ConfigError("aliases are not understood here", path=self.path, line=line)
            return yaml.compose(text, Loader=loader)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the file can't be read: {error}", path=self.path) from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or str(error)
            raise ConfigError(problem, path=self.path, line=mark.line + 1 if mark else None) from error

    def items(self, node: yaml.Node) -> list[tuple[str, yaml.Node]]:
        import yaml

        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, "a mapping is expected here")
        return [(self.string(key), value) for key, value in node.value]

    def mapping(self, node: yaml.Node, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        entries: dict[str, yaml.Node] = {}
        for key, value in self.items(node):
            if key not in known:
                self.wrong(value, f"the key {key!r} is unknown; known: {', '.join(known)}")
            if key in entries:
                self.wrong(value, f"the key {key!r} stands twice")
            entries[key] = value
        return entries

    def sequence(self, node: yaml.Node) -> list[yaml.Node]:
        import yaml

        if not isinstance(node, yaml.SequenceNode):
            self.wrong(node, "a list is expected here")
        return list(node.value)

    def string(self, node: yaml.Node) -> str:
        if node.tag != "tag:yaml.org,2002:str":
            self.wrong(node, "a text is expected here; put it in quotes")
        return str(node.value)

    def number(self, node: yaml.Node) -> float:
        try:
            return float(node.value) if node.tag.endswith((":int", ":float")) else self.wrong(node, "")
        except ValueError:
            self.wrong(node, "a number is expected here")

    def whole(self, node: yaml.Node) -> int:
        if not node.tag.endswith(":int") or not re.fullmatch(r"-?\d{1,6}", str(node.value)):
            self.wrong(node, "a whole number is expected here")
        return int(node.value)

    def flag(self, node: yaml.Node) -> bool:
        if not node.tag.endswith(":bool") or str(node.value) not in ("true", "false"):
            self.wrong(node, "true or false is expected here")
        return bool(node.value == "true")

    def wrong(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(message or "a number is expected here", path=self.path, line=line_of(node))


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
