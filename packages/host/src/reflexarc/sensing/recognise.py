"""Reading phases and recognisers from folders of YAML files.

A file has a mapping `phases` (name -> parent, usual_max, passing, alarm), a list `recognisers` (phase,
evidence, unless, complete, confidence), a mapping `needles` (name -> size and digest, or image), or several of these.
Evidence
is `text: REGEX` (with `where`, `rows`, `count`), `highlighted: REGEX`, `needle: NAME` (with `alone`),
`serial: REGEX` (with `where`, `count`), `application: REGEX` (of the guest's desktop, by its name),
`element: {role, name, value, text}` (of its accessibility tree; with `application`: REGEX of the one it belongs to), or
`any`, `all`, `not` of such.

Places (`where`): anywhere (the default), line (the pattern is a whole line), last_line (the last that is not
blank), prompt (the same, kernel messages after it left out), cursor_line, before_cursor (the cursor's line where
nothing follows the cursor). `rows: [first, last]` takes rows of the screen instead, negative ones from its end.
Blanks at the end of a line are not there to be matched.

A needle is a picture in the middle of the screen, `alone: true` where nothing else is drawn in its upper nine
tenths. Its `size` is [width, height], its `digest` what `reflexarc phases explain FRAME --needle WIDTHxHEIGHT` prints.
Or it is a picture known by its likeness: `image` is a PNG file in the same folder, `region` [x, y, width, height]
where to look (from the right or bottom where x or y is negative; everywhere without it, which costs a tenth of a
second a frame), `threshold` the likeness it takes (0.95). Such are looked for only where evidence asks: put what is
cheap, such as `not: {text: ...}`, before it in an `all`.

A file that a run was taught (see `taught`) also has a mapping `taught`; until a person accepts it it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from reflexarc import patterns
from reflexarc.errors import ConfigError
from reflexarc.machine import patch
from reflexarc.machine.accessibility import Selector
from reflexarc.observation import LIKENESS, Phase
from reflexarc.sensing.evidence import PLACES, AllOf, AnyOf, Evidence, Highlighted, Not, Seen, Text
from reflexarc.sensing.needle import DIGEST_SIZE, Needle, Patch, Region
from reflexarc.sensing.nodes import NodeReader, line_of
from reflexarc.sensing.recogniser import Recogniser, Recognisers
from reflexarc.sensing.taught import PREFIX
from reflexarc.sensing.tree import RunningApp, ShownElement

if TYPE_CHECKING:
    import yaml

__all__ = ["Recogniser", "Recognisers", "load_recognisers"]

_MAX_DEPTH = 6
_MAX_NEEDLE = 1 << 20
_MAX_SELECTOR_TEXT = 1000
_KINDS = ("text", "highlighted", "needle", "serial", "element", "application", "any", "all", "not")
_SOURCES = {
    "text": "screen", "highlighted": "screen", "needle": "screen", "serial": "serial", "element": "tree",
    "application": "tree",
}  # fmt: skip
_RUNGS = {"serial": "serial", "tree": "accessibility"}


def load_recognisers(extra: Sequence[Path] = ()) -> Recognisers:
    """Read the recognisers that come with reflexarc and those in further folders of YAML files.

    Raises ConfigError, with path and line, for any mistake in a file.
    """
    found = _Found()
    with as_file(files("reflexarc.sensing") / "phases") as builtin:
        for folder in (builtin, *extra):
            shipped = folder is builtin
            if not folder.is_dir():
                raise ConfigError("this folder of phases does not exist; create it", path=folder)
            for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")], key=_in_order):
                _File(path, shipped=shipped).read(found)
    found.check()
    return Recognisers(
        [phase for phase, _, _ in found.phases.values()],
        [one for one, _, _ in found.recognisers],
        needles=found.needles.values(),
        places={name: f"{path}:{line}" for name, (_, path, line) in found.phases.items()},
    )


def _in_order(path: Path) -> tuple[bool, str]:
    """Files of a folder by their names; those that were taught last, since they may speak of the others' phases."""
    return path.name.startswith(PREFIX), path.name


@dataclass
class _Found:
    """What the files read so far declare, each with the path and line it stands at."""

    phases: dict[str, tuple[Phase, Path, int]] = field(default_factory=dict)
    recognisers: list[tuple[Recogniser, Path, int]] = field(default_factory=list)
    needles: dict[str, Needle | Patch] = field(default_factory=dict)
    wanted: list[tuple[str, Path, int]] = field(default_factory=list)

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
        for name, path, line in self.wanted:
            if name not in self.needles:
                raise ConfigError(f"there is no needle {name!r}; declare it", path=path, line=line)


class _File(NodeReader):
    """One file of phases; of one that is shipped the tests have tried patterns and pictures."""

    def __init__(self, path: Path, *, shipped: bool) -> None:
        super().__init__(path)
        self._shipped = shipped
        self._wanted: list[tuple[str, Path, int]] = []

    def read(self, found: _Found) -> None:
        root = self.document()
        if root is None:
            return
        entries = self.mapping(root, ("phases", "recognisers", "needles", "taught"))
        taught = self._taught(entries["taught"]) if "taught" in entries else None
        if taught is False:
            return
        if "phases" in entries:
            self._phases(entries["phases"], found, again=taught is True)
        if "recognisers" in entries:
            for node in self.sequence(entries["recognisers"]):
                recogniser = replace(self._recogniser(node), taught=taught is True)
                found.recognisers.append((recogniser, self.path, line_of(node)))
        if "needles" in entries:
            for name, node in self.items(entries["needles"]):
                if name in found.needles:
                    self.wrong(node, f"the needle {name!r} is declared twice")
                found.needles[name] = self._needle(name, node)
        found.wanted.extend(self._wanted)

    def _taught(self, node: yaml.Node) -> bool:
        """Tell whether what was taught counts."""
        entries = self.mapping(node, ("by", "run", "accepted"))
        return "accepted" in entries and self.flag(entries["accepted"])

    def _phases(self, node: yaml.Node, found: _Found, *, again: bool) -> None:
        for name, value in self.items(node):
            if name not in found.phases:
                found.phases[name] = (self._phase(name, value), self.path, line_of(value))
            elif not again:
                self.wrong(value, f"the phase {name!r} is declared twice")

    def _phase(self, name: str, node: yaml.Node) -> Phase:
        entries = self.mapping(node, ("parent", "usual_max", "passing", "alarm"))
        usual = self.number(entries["usual_max"]) if "usual_max" in entries else Phase(name).usual_max
        if usual <= 0:
            self.wrong(entries["usual_max"], "usual_max must be more than 0 seconds")
        return Phase(
            name=name,
            parent=self.string(entries["parent"]) if "parent" in entries else None,
            usual_max=usual,
            passing="passing" in entries and self.flag(entries["passing"]),
            alarm="alarm" in entries and self.flag(entries["alarm"]),
        )

    def _needle(self, name: str, node: yaml.Node) -> Needle | Patch:
        entries = self.mapping(node, ("size", "digest", "image", "region", "threshold"))
        kinds = {"size", "digest"}, {"image", "region", "threshold"}
        if not any(entries.keys() <= kind for kind in kinds):
            self.wrong(node, "a needle has either a size and a digest, or an image")
        if "image" in entries:
            return self._patch(name, entries)
        for key in ("size", "digest"):
            if key not in entries:
                self.wrong(node, f"a needle needs {key!r}")
        size = [self.whole(item) for item in self.sequence(entries["size"])]
        if len(size) != 2 or min(size) < 1 or size[0] * size[1] > _MAX_NEEDLE:
            self.wrong(entries["size"], "the size is two numbers, width and height, of a megapixel at most")
        digest = self.string(entries["digest"])
        if not re.fullmatch(rf"[0-9a-f]{{{2 * DIGEST_SIZE}}}", digest):
            self.wrong(entries["digest"], f"a digest has {2 * DIGEST_SIZE} hexadecimal digits")
        return Needle(name, size[0], size[1], digest)

    def _patch(self, name: str, entries: dict[str, yaml.Node]) -> Patch:
        image = self.string(entries["image"])
        if Path(image).name != image:
            self.wrong(entries["image"], "an image is a file in the folder of this one")
        try:
            with (self.path.parent / image).open("rb") as file:
                png = file.read(patch.MAX_FILE + 1)
            height, width = (1, 1) if self._shipped else patch.decode(png).shape
        except (OSError, ValueError) as error:
            self.wrong(entries["image"], f"the image {image!r}: {error}")
        region = None
        if "region" in entries:
            sides = [self.whole(item) for item in self.sequence(entries["region"])]
            if len(sides) != 4 or sides[2] < width or sides[3] < height:
                self.wrong(
                    entries["region"], "a region is [x, y, width, height], in which the image has room"
                )
            region = Region(*sides)
        threshold = self.number(entries["threshold"]) if "threshold" in entries else LIKENESS
        if not 0.5 <= threshold <= 1:
            self.wrong(entries["threshold"], "the threshold is from 0.5 to 1")
        return Patch(name, png, region, threshold)

    def _recogniser(self, node: yaml.Node) -> Recogniser:
        entries = self.mapping(node, ("phase", "evidence", "unless", "complete", "confidence"))
        for key in ("phase", "evidence"):
            if key not in entries:
                self.wrong(node, f"a recogniser needs {key!r}")
        confidence = self.number(entries["confidence"]) if "confidence" in entries else Recogniser.confidence
        if not 0 < confidence <= 1:
            self.wrong(entries["confidence"], "confidence must be above 0 and at most 1")
        parts = {
            key: tuple(self._evidence(part, 1) for part in self.sequence(entries[key]))
            for key in ("evidence", "unless", "complete")
            if key in entries
        }
        if not parts["evidence"]:
            self.wrong(entries["evidence"], "the list of evidence is empty")
        kinds = {kind for key in parts for part in self.sequence(entries[key]) for kind in self._kinds(part)}
        sources = {_SOURCES[kind] for kind in kinds if kind in _SOURCES}
        if len(sources) > 1:
            self.wrong(
                node,
                "evidence of a screen, a serial console and a tree does not go together; make it several",
            )
        source = sources.pop()
        rung = _RUNGS.get(source, "needle" if "needle" in kinds else "text")
        return Recogniser(
            self.string(entries["phase"]),
            parts["evidence"],
            parts.get("unless", ()),
            parts.get("complete", ()),
            confidence,
            rung,
            source,
            place=f"{self.path}:{line_of(node)}",
        )

    def _kinds(self, node: yaml.Node) -> Iterator[str]:
        """The kinds of evidence in a tree of it, already known to be well formed."""
        for key, value in self.items(node):
            if key in ("any", "all"):
                for part in self.sequence(value):
                    yield from self._kinds(part)
            elif key == "not":
                yield from self._kinds(value)
            else:
                yield key

    def _evidence(self, node: yaml.Node, depth: int) -> Evidence:
        if depth > _MAX_DEPTH:
            self.wrong(node, f"evidence is nested more than {_MAX_DEPTH} deep")
        entries = self.mapping(node, (*_KINDS, "where", "rows", "count", "alone"))
        kinds = [key for key in entries if key in _KINDS]
        if "element" in kinds and "application" in kinds:
            kinds.remove("application")
        if len(kinds) != 1:
            self.wrong(node, f"evidence has exactly one of {', '.join(_KINDS)}")
        kind = kinds[0]
        beside = {"text": {"where", "rows", "count"}, "serial": {"where", "count"}, "needle": {"alone"}}
        beside["element"] = {"application"}
        if entries.keys() - {kind} - beside.get(kind, set()):
            self.wrong(
                node, f"{kind!r} takes {' and '.join(sorted(beside.get(kind, ()))) or 'nothing'} beside it"
            )
        build: dict[str, Callable[[], Evidence]] = {
            "any": lambda: AnyOf(self._parts(entries["any"], depth)),
            "all": lambda: AllOf(self._parts(entries["all"], depth)),
            "not": lambda: Not(self._evidence(entries["not"], depth + 1)),
            "highlighted": lambda: Highlighted(self._pattern(entries["highlighted"])),
            "needle": lambda: self._seen(entries),
            "element": lambda: self._element(entries),
            "application": lambda: RunningApp(self._pattern(entries["application"])),
        }
        return build.get(kind, lambda: self._text(kind, entries))()

    def _seen(self, entries: dict[str, yaml.Node]) -> Seen:
        node = entries["needle"]
        name = self.string(node)
        self._wanted.append((name, self.path, line_of(node)))
        return Seen(name, "alone" in entries and self.flag(entries["alone"]))

    def _element(self, entries: dict[str, yaml.Node]) -> ShownElement:
        node = entries["element"]
        asked = self.mapping(node, ("role", "name", "value", "text"))
        if not asked:
            self.wrong(node, "an element is told by at least one of role, name, value, text")
        texts = {key: self.string(value) for key, value in asked.items()}
        for key, text in texts.items():
            if not 0 < len(text) <= _MAX_SELECTOR_TEXT:
                self.wrong(asked[key], f"{key} has 1 to {_MAX_SELECTOR_TEXT} characters")
        app = self._pattern(entries["application"]) if "application" in entries else None
        return ShownElement(Selector.of(texts), app)

    def _parts(self, node: yaml.Node, depth: int) -> tuple[Evidence, ...]:
        parts = tuple(self._evidence(part, depth + 1) for part in self.sequence(node))
        return parts or self.wrong(node, "the list is empty")

    def _text(self, kind: str, entries: dict[str, yaml.Node]) -> Text:
        place = self.string(entries["where"]) if "where" in entries else "anywhere"
        if place not in (*PLACES, "line"):
            self.wrong(entries["where"], f"there is no place {place!r}; known: line, {', '.join(PLACES)}")
        rows = None
        if "rows" in entries:
            if "where" in entries or kind == "serial":
                self.wrong(entries["rows"], "rows are a place of a screen: leave out 'where', and serial")
            numbers = [self.whole(item) for item in self.sequence(entries["rows"])]
            if len(numbers) != 2:
                self.wrong(entries["rows"], "rows are two numbers, the first and the last row")
            rows = (numbers[0], numbers[1])
        count = self.whole(entries["count"]) if "count" in entries else 1
        if count < 1:
            self.wrong(entries["count"], "count must be at least 1")
        return Text(self._pattern(entries[kind]), place, rows, count)

    def _pattern(self, node: yaml.Node) -> re.Pattern[str]:
        text = self.string(node)
        wrong = None if self._shipped else patterns.problem(text)
        if wrong is not None:
            self.wrong(node, wrong)
        return re.compile(text, re.MULTILINE)
