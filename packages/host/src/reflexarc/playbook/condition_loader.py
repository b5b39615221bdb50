"""Plain data to conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from reflexarc.observation import UNKNOWN, Phases
from reflexarc.playbook import needles
from reflexarc.playbook.conditions import (
    AllOf,
    AnyOf,
    Changed,
    Condition,
    ElementIs,
    NeedleIs,
    Not,
    PhaseIs,
    Region,
    SerialIs,
    Settled,
    TextIs,
    ValueIs,
)
from reflexarc.playbook.document import Document, Path
from reflexarc.playbook.element_loader import load_selector
from reflexarc.playbook.fields import Fields, spell, unknown
from reflexarc.playbook.format import COMPARISONS, CONDITIONS, MAX_PLACE, REGION

_KINDS = tuple(CONDITIONS)


class ConditionLoader:
    """Loads the conditions of one document; phase names are checked against the phases that are known."""

    def __init__(self, document: Document, phases: Phases) -> None:
        self._document = document
        self._phases = phases

    def load(self, path: Path, value: object) -> Condition | None:
        """A phase, a list (any of), or a mapping with one kind of condition; None for nothing."""
        if value is None:
            return None
        if isinstance(value, str):
            return PhaseIs((self.phase_name(path, value),))
        if isinstance(value, list):
            return self._any(path, value)
        if not isinstance(value, Mapping):
            raise self._document.error(
                path, f"a condition is a phase, a list or a mapping, not {spell(value)}"
            )
        return self._mapping(path, value)

    def phase_name(self, path: Path, name: object) -> str:
        """Check the name of a phase."""
        if isinstance(name, str) and name in self._phases and name != UNKNOWN:
            return name
        known = [phase for phase in self._phases if phase != UNKNOWN]
        raise self._document.error(path, unknown("phase", name, known))

    def _mapping(self, path: Path, value: Mapping[str, object]) -> Condition:
        kinds = [kind for kind in _KINDS if kind in value]
        if len(kinds) != 1:
            for key in value:
                if key not in _KINDS:
                    raise self._document.error((*path, key), unknown("kind of condition", key, _KINDS))
            raise self._document.error(path, f"a condition has exactly one of: {', '.join(_KINDS)}")
        kind = kinds[0]
        fields = Fields(self._document, path, value, CONDITIONS[kind], f"a {kind} condition")
        if fields.get(kind) is None:
            raise fields.error(kind, f"{kind} says nothing here; give it a value, or leave the condition out")
        loaders: Mapping[str, Callable[[Fields], Condition]] = {
            "phase": self._phase,
            "text": self._text,
            "needle": _needle,
            "element": self._element,
            "serial": lambda f: SerialIs(f.pattern("serial") or ""),
            "changed": self._changed,
            "settled": lambda f: Settled(f.number("settled") or 0.0),
            "value": self._value,
            "any": lambda f: AnyOf(self._parts(f, "any")),
            "all": lambda f: AllOf(self._parts(f, "all")),
            "not": self._not,
        }
        return loaders[kind](fields)

    def _any(self, path: Path, items: list[object]) -> Condition:
        if not items:
            raise self._document.error(path, "an empty list never holds")
        parts = [self._part((*path, i), item) for i, item in enumerate(items)]
        if all(isinstance(part, PhaseIs) for part in parts):
            return PhaseIs(tuple(name for part in parts if isinstance(part, PhaseIs) for name in part.phases))
        return AnyOf(tuple(parts))

    def _part(self, path: Path, value: object) -> Condition:
        condition = self.load(path, value)
        if condition is None:
            raise self._document.error(path, "a condition is missing here")
        return condition

    def _parts(self, fields: Fields, key: str) -> tuple[Condition, ...]:
        items = fields.get(key)
        if not isinstance(items, list) or not items:
            raise fields.error(key, f"{key} is a list of conditions, not {spell(items)}")
        return tuple(self._part((*fields.path, key, i), item) for i, item in enumerate(items))

    def _phase(self, fields: Fields) -> Condition:
        names = fields.texts("phase")
        if not names:
            raise fields.error("phase", "phase names at least one phase")
        return PhaseIs(tuple(self.phase_name((*fields.path, "phase"), name) for name in names))

    def _text(self, fields: Fields) -> Condition:
        raw = fields.get("region")
        region = None
        if raw is not None:
            path = (*fields.path, "region")
            given = Fields(self._document, path, raw, REGION, "a region")
            region = Region(_ends(given, "rows"), _ends(given, "columns"))
        return TextIs(fields.pattern("text") or "", fields.flag("highlighted"), region)

    def _element(self, fields: Fields) -> Condition:
        path = (*fields.path, "element")
        return ElementIs(load_selector(self._document, path, fields.get("element")))

    def _changed(self, fields: Fields) -> Condition:
        return Changed() if fields.flag("changed") else Not(Changed())

    def _not(self, fields: Fields) -> Condition:
        return Not(self._part((*fields.path, "not"), fields.get("not")))

    def _value(self, fields: Fields) -> Condition:
        tests = [key for key in COMPARISONS if fields.get(key) is not None]
        if len(tests) != 1:
            raise fields.error("value", f"beside value stands exactly one of: {', '.join(COMPARISONS)}")
        among = fields.get("in")
        if among is not None and not isinstance(among, list):
            raise fields.error("in", f"in is a list, not {spell(among)}")
        return ValueIs(
            _scalar(fields, "value"),
            equals=_scalar(fields, "equals") if "equals" in tests else None,
            matches=fields.pattern("matches"),
            among=None if among is None else tuple(self._among(fields, among)),
        )

    def _among(self, fields: Fields, items: list[object]) -> Iterator[str]:
        for index, item in enumerate(items):
            if item is None or isinstance(item, list | Mapping):
                path = (*fields.path, "in", index)
                raise self._document.error(path, f"in lists texts, numbers or true/false, not {spell(item)}")
            yield _spell_scalar(item)


def _needle(fields: Fields) -> NeedleIs:
    name = fields.required_text("needle", "a needle condition")
    try:
        image = needles.required(fields.text("image"))
        height, width = needles.decode(image).shape
    except ValueError as error:
        raise fields.error("needle", f"the needle {name!r}: {error}") from error
    threshold = fields.number("threshold", 0.5, 1)
    return NeedleIs(
        name, image, _region(fields, width, height), NeedleIs.threshold if threshold is None else threshold
    )


def _region(fields: Fields, width: int, height: int) -> tuple[int, int, int, int] | None:
    value = fields.get("region")
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) == 4 and all(map(_is_place, value))):
        raise fields.error("region", "region is [x, y, width, height] in pixels")
    x, y, wide, high = map(int, value)
    if wide < width or high < height:
        raise fields.error("region", f"the needle of {width}x{height} pixels does not fit into its region")
    return x, y, wide, high


def _ends(fields: Fields, key: str) -> tuple[int, int]:
    value = fields.get(key)
    if value is None:
        return 0, -1
    if isinstance(value, list) and len(value) == 2 and all(_is_place(end) for end in value):
        return int(value[0]), int(value[1])
    raise fields.error(key, f"{key} is [first, last], counted from 0 or, negative, from the end")


def _is_place(end: object) -> bool:
    if isinstance(end, bool) or not isinstance(end, int | float):
        return False
    return abs(end) <= MAX_PLACE and end == int(end)


def _scalar(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if isinstance(value, list | Mapping) or value is None:
        raise fields.error(key, f"{key} is text, a number or true/false, not {spell(value)}")
    return _spell_scalar(value)


def _spell_scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
