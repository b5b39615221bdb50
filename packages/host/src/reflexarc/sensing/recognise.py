"""Reading phases and recognisers from folders of YAML files.

A file has a mapping `phases` (name -> parent, usual_max, passing, alarm), a list `recognisers` (phase,
evidence, unless, complete, confidence), or both. Evidence is `text: REGEX` (with `where`, `rows`, `count`),
`highlighted: REGEX`, `serial: REGEX` (with `where`, `count`), or `any`, `all`, `not` of such.

Places (`where`): anywhere (the default), line (the pattern is a whole line), last_line (the last that is not
blank), prompt (the same, kernel messages after it left out), cursor_line, before_cursor (the cursor's line where
nothing follows the cursor). `rows: [first, last]` takes rows of the screen instead, negative ones from its end.
Blanks at the end of a line are not there to be matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from reflexarc.errors import ConfigError
from reflexarc.observation import Phase
from reflexarc.sensing.evidence import PLACES, AllOf, AnyOf, Evidence, Highlighted, Not, Text
from reflexarc.sensing.recogniser import Recogniser, Recognisers

if TYPE_CHECKING:
    import yaml

__all__ = ["Recogniser", "Recognisers", "load_recognisers"]

MAX_PATTERN = 500
_MAX_FILE = 1 << 20
_MAX_DEPTH = 6
_KINDS = ("text", "highlighted", "serial", "any", "all", "not")
_NESTED_REPEAT = re.compile(r"(?<!\\)[+*}]\)(?:[+*]|\{\d*,)")


def load_recognisers(extra: Sequence[Path] = ()) -> Recognisers:
    """Read the recognisers that come with reflexarc and those in further folders of YAML files.

    Raises ConfigError, with path and line, for any mistake in a file.
    """
    found = _Found()
    with as_file(files("reflexarc.sensing") / "phases") as builtin:
        for folder in (builtin, *extra):
            if not folder.is_dir():
                raise ConfigError("this folder of phases does not exist; create it", path=folder)
            for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
                _File(path).read(found)
    found.check()
    return Recognisers(
        [phase for phase, _, _ in found.phases.values()], [one for one, _, _ in found.recognisers]
    )


@dataclass
class _Found:
    """What the files read so far declare, each with the path and line it stands at."""

    phases: dict[str, tuple[Phase, Path, int]] = field(default_factory=dict)
    recognisers: list[tuple[Recogniser, Path, int]] = field(default_factory=list)

    def check(self) -> None:
        """Raise ConfigError where a name does not refer to a declared phase, or parents go in a circle."""
        for phase, path, line in self.phases.values():
            seen, parent = {phase.name}, phase.parent
            while parent is not None:
                if parent not in self.phases:
                    raise ConfigError(f"the parent {parent!r} is not a known phase", path=path, line=line)
                if parent in seen:
                    raise ConfigError(f"{phase.name!r} is its own ancestor", path=path, line=line)
                seen.add(parent)
                parent = self.phases[parent][0].parent
        for recogniser, path, line in self.recognisers:
            if recogniser.phase not in self.phases:
                raise ConfigError(f"there is no phase {recogniser.phase!r}; declare it", path=path, line=line)


class _File:
    """One file of phases, and where in it a mistake is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, found: _Found) -> None:
        root = self._document()
        if root is None:
            return
        entries = self._mapping(root, ("phases", "recognisers"))
        if "phases" in entries:
            for name, node in self._items(entries["phases"]):
                if name in found.phases:
                    self._wrong(node, f"the phase {name!r} is declared twice")
                found.phases[name] = (self._phase(name, node), self.path, _line(node))
        if "recognisers" in entries:
            for node in self._sequence(entries["recognisers"]):
                found.recognisers.append((self._recogniser(node), self.path, _line(node)))

    def _document(self) -> yaml.Node | None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            if self.path.stat().st_size > _MAX_FILE:
                raise ConfigError("the file is larger than 1 MiB", path=self.path)
            text = self.path.read_text(encoding="utf-8")
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

    def _phase(self, name: str, node: yaml.Node) -> Phase:
        entries = self._mapping(node, ("parent", "usual_max", "passing", "alarm"))
        usual = self._number(entries["usual_max"]) if "usual_max" in entries else Phase(name).usual_max
        if usual <= 0:
            self._wrong(entries["usual_max"], "usual_max must be more than 0 seconds")
        return Phase(
            name=name,
            parent=self._string(entries["parent"]) if "parent" in entries else None,
            usual_max=usual,
            passing="passing" in entries and self._flag(entries["passing"]),
            alarm="alarm" in entries and self._flag(entries["alarm"]),
        )

    def _recogniser(self, node: yaml.Node) -> Recogniser:
        entries = self._mapping(node, ("phase", "evidence", "unless", "complete", "confidence"))
        for key in ("phase", "evidence"):
            if key not in entries:
                self._wrong(node, f"a recogniser needs {key!r}")
        confidence = self._number(entries["confidence"]) if "confidence" in entries else 0.95
        if not 0 < confidence <= 1:
            self._wrong(entries["confidence"], "confidence must be above 0 and at most 1")
        parts = {
            key: tuple(self._evidence(part, 1) for part in self._sequence(entries[key]))
            for key in ("evidence", "unless", "complete")
            if key in entries
        }
        if not parts["evidence"]:
            self._wrong(entries["evidence"], "the list of evidence is empty")
        kinds = {kind for key in parts for part in self._sequence(entries[key]) for kind in self._kinds(part)}
        if "serial" in kinds and kinds & {"text", "highlighted"}:
            self._wrong(node, "serial evidence does not go together with that of a screen; make it two")
        phase = self._string(entries["phase"])
        return Recogniser(phase=phase, confidence=confidence, serial="serial" in kinds, **parts)

    def _kinds(self, node: yaml.Node) -> Iterator[str]:
        """The kinds of evidence in a tree of it, already known to be well formed."""
        for key, value in self._items(node):
            if key in ("any", "all"):
                for part in self._sequence(value):
                    yield from self._kinds(part)
            elif key == "not":
                yield from self._kinds(value)
            else:
                yield key

    def _evidence(self, node: yaml.Node, depth: int) -> Evidence:
        if depth > _MAX_DEPTH:
            self._wrong(node, f"evidence is nested more than {_MAX_DEPTH} deep")
        entries = self._mapping(node, (*_KINDS, "where", "rows", "count"))
        kinds = [key for key in entries if key in _KINDS]
        if len(kinds) != 1:
            self._wrong(node, f"evidence has exactly one of {', '.join(_KINDS)}")
        kind = kinds[0]
        if kind not in ("text", "serial") and len(entries) > 1:
            self._wrong(node, f"{kind!r} takes nothing beside it")
        build: dict[str, Callable[[], Evidence]] = {
            "any": lambda: AnyOf(self._parts(entries["any"], depth)),
            "all": lambda: AllOf(self._parts(entries["all"], depth)),
            "not": lambda: Not(self._evidence(entries["not"], depth + 1)),
            "highlighted": lambda: Highlighted(self._pattern(entries["highlighted"])),
        }
        return build.get(kind, lambda: self._text(kind, entries))()

    def _parts(self, node: yaml.Node, depth: int) -> tuple[Evidence, ...]:
        parts = tuple(self._evidence(part, depth + 1) for part in self._sequence(node))
        return parts or self._wrong(node, "the list is empty")

    def _text(self, kind: str, entries: dict[str, yaml.Node]) -> Text:
        place = self._string(entries["where"]) if "where" in entries else "anywhere"
        if place not in (*PLACES, "line"):
            self._wrong(entries["where"], f"there is no place {place!r}; known: line, {', '.join(PLACES)}")
        rows = None
        if "rows" in entries:
            if "where" in entries or kind == "serial":
                self._wrong(entries["rows"], "rows are a place of a screen: leave out 'where', and serial")
            numbers = [self._whole(item) for item in self._sequence(entries["rows"])]
            if len(numbers) != 2:
                self._wrong(entries["rows"], "rows are two numbers, the first and the last row")
            rows = (numbers[0], numbers[1])
        count = self._whole(entries["count"]) if "count" in entries else 1
        if count < 1:
            self._wrong(entries["count"], "count must be at least 1")
        return Text(self._pattern(entries[kind]), place, rows, count)

    def _pattern(self, node: yaml.Node) -> re.Pattern[str]:
        text = self._string(node)
        if len(text) > MAX_PATTERN:
            self._wrong(node, f"the pattern is longer than {MAX_PATTERN} characters")
        if _NESTED_REPEAT.search(text):
            self._wrong(node, "the pattern repeats a repetition, which can take for ever; write it plainly")
        try:
            return re.compile(text, re.MULTILINE)
        except re.error as error:
            self._wrong(node, f"the pattern is wrong: {error}")

    def _items(self, node: yaml.Node) -> list[tuple[str, yaml.Node]]:
        import yaml

        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, "a mapping is expected here")
        return [(self._string(key), value) for key, value in node.value]

    def _mapping(self, node: yaml.Node, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        entries: dict[str, yaml.Node] = {}
        for key, value in self._items(node):
            if key not in known:
                self._wrong(value, f"the key {key!r} is unknown; known: {', '.join(known)}")
            if key in entries:
                self._wrong(value, f"the key {key!r} stands twice")
            entries[key] = value
        return entries

    def _sequence(self, node: yaml.Node) -> list[yaml.Node]:
        import yaml

        if not isinstance(node, yaml.SequenceNode):
            self._wrong(node, "a list is expected here")
        return list(node.value)

    def _string(self, node: yaml.Node) -> str:
        if node.tag != "tag:yaml.org,2002:str":
            self._wrong(node, "a text is expected here; put it in quotes")
        return str(node.value)

    def _number(self, node: yaml.Node) -> float:
        try:
            return float(node.value) if node.tag.endswith((":int", ":float")) else self._wrong(node, "")
        except ValueError:
            self._wrong(node, "a number is expected here")

    def _whole(self, node: yaml.Node) -> int:
        if not node.tag.endswith(":int") or not re.fullmatch(r"-?\d{1,6}", str(node.value)):
            self._wrong(node, "a whole number is expected here")
        return int(node.value)

    def _flag(self, node: yaml.Node) -> bool:
        if not node.tag.endswith(":bool") or str(node.value) not in ("true", "false"):
            self._wrong(node, "true or false is expected here")
        return bool(node.value == "true")

    def _wrong(self, node: yaml.Node, message: str) -> NoReturn:
        raise ConfigError(message or "a number is expected here", path=self.path, line=_line(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
