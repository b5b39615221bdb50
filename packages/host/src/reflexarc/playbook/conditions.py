"""Conditions: one language for wait_for, precondition, expect, when and assert; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import TypeAlias

from reflexarc.errors import PlaybookError
from reflexarc.machine.accessibility import Selector
from reflexarc.machine.policy import EVIDENCE_MAX_AGE
from reflexarc.observation import (
    EXACT_RUNGS,
    LIKENESS,
    OWN_RUNG_PHASES,
    UNKNOWN,
    Observation,
    Phases,
    ScreenText,
    Sighting,
)
from reflexarc.playbook.template import render

# Origins whose word never satisfies a precondition; `taught` is what an agent taught and no person accepted.
NOT_AUTHORITATIVE = frozenset({"vision", "taught", "none", ""})


@dataclass(frozen=True)
class PhaseIs:
    """One of these phases (or a child of one) is on the machine."""

    phases: tuple[str, ...]


@dataclass(frozen=True)
class Region:
    """Rows and columns of a screen, both ends included, counted from 0; negative ones from the end."""

    rows: tuple[int, int] = (0, -1)
    columns: tuple[int, int] = (0, -1)

    def cut(self, screen: ScreenText) -> ScreenText:
        """The screen with nothing but what is in the region."""
        width = max([screen.columns, *(len(line) for line in screen.lines)])
        top, bottom = _span(self.rows, len(screen.lines))
        left, right = _span(self.columns, width)
        runs = [
            (row - top, max(column, left) - left, text[max(0, left - column) : max(0, right - column)])
            for row, column, text in screen.highlighted
            if top <= row < bottom
        ]
        lines = tuple(line[left:right] for line in screen.lines[top:bottom])
        return ScreenText(lines, tuple(run for run in runs if run[2]), columns=right - left)


def _span(ends: tuple[int, int], length: int) -> tuple[int, int]:
    first, last = (end + length if end < 0 else end for end in ends)
    return max(0, first), max(0, min(last + 1, length))


@dataclass(frozen=True)
class TextIs:
    """A regular expression is found in the screen's text; highlighted: within a run of reverse video."""

    pattern: str
    highlighted: bool = False
    region: Region | None = None


@dataclass(frozen=True)
class NeedleIs:
    """A picture is on the screen, in a region (x, y, width, height in pixels) or anywhere.

    image: its PNG file in base64. threshold: the likeness it takes, from 0 to 1.
    """

    name: str
    image: str
    region: tuple[int, int, int, int] | None = None
    threshold: float = LIKENESS

    @cached_property
    def key(self) -> str:
        """What observations call it: equal for the same picture in the same place."""
        looked_for = repr((self.image, self.region, self.threshold)).encode()
        return f"{self.name[:64]} {blake2b(looked_for, digest_size=8).hexdigest()}"


@dataclass(frozen=True)
class ElementIs:
    """An element of the accessibility tree is there; the texts of its selector are templates."""

    selector: Selector

    def rendered(self, scope: Mapping[str, object]) -> Selector:
        """The selector with its names looked up.

        Raises PlaybookError for a name that has no value, and where that leaves a text empty, which would not be asked.
        """
        own = self.selector
        role, name, value, text = (
            None if part is None else _some(part, render(part, scope))
            for part in (own.role, own.name, own.value, own.text)
        )
        return replace(own, role=role, name=name, value=value, text=text)

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts of the selector."""
        own = self.selector
        return tuple(part for part in (own.role, own.name, own.value, own.text) if part is not None)


def _some(template: str, rendered: str) -> str:
    if not rendered:
        raise PlaybookError(f"{template!r} of the element has no text once its names are looked up")
    return rendered


def element_key(selector: Selector) -> str:
    """What observations call an element that is looked for."""
    return blake2b(repr(selector).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class SerialIs:
    """A regular expression is found in what the serial console said since the last action."""

    pattern: str


@dataclass(frozen=True)
class Changed:
    """The screen has changed since the last action."""


@dataclass(frozen=True)
class Settled:
    """The screen has been still for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class ValueIs:
    """A rendered template equals, matches (regular expression) or is one of the given values."""

    value: str
    equals: str | None = None
    matches: str | None = None
    among: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    part: Condition


Condition: TypeAlias = (
    PhaseIs | TextIs | NeedleIs | ElementIs | SerialIs | Changed | Settled | ValueIs | AnyOf | AllOf | Not
)


@dataclass(frozen=True)
class Sight:
    """Everything a condition may look at.

    since: the moment after which evidence counts. serial_mark: where new serial text begins.
    strict: authoritative evidence only, as a precondition demands.
    """

    observation: Observation
    now: float
    since: float
    serial_mark: int
    min_confidence: float
    phases: Phases
    scope: Mapping[str, object]
    strict: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether a condition holds; complete: on an exact rung's whole evidence; match: what a pattern found.

    unsure: it can't be told, which a `not` doesn't turn into yes. evidential: the machine's phase, screen, tree or
    serial text said so, not merely time or values. element: the one that was found.
    """

    holds: bool
    complete: bool = False
    match: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    unsure: bool = False
    evidential: bool = False
    element: Sighting | None = None


NO = Verdict(False)
CANNOT_TELL = Verdict(False, unsure=True)


def evaluate(condition: Condition, sight: Sight) -> Verdict:
    """Judge a condition on what is seen."""
    match condition:
        case PhaseIs(phases):
            return _phase(phases, sight)
        case TextIs():
            return _text(condition, sight)
        case NeedleIs() | ElementIs():
            return _found(condition, sight)
        case SerialIs(pattern):
            return _serial(pattern, sight)
        case Changed() | Settled():
            return _stillness(condition, sight)
        case ValueIs():
            return _value(condition, sight)
        case AnyOf(parts):
            return _any([evaluate(part, sight) for part in parts])
        case AllOf(parts):
            return _all([evaluate(part, sight) for part in parts])
        case Not(part):
            inner = evaluate(part, sight)
            return inner if inner.unsure else Verdict(not inner.holds, evidential=inner.evidential)


def _stillness(condition: Changed | Settled, sight: Sight) -> Verdict:
    changed_at = sight.observation.changed_at
    if isinstance(condition, Changed):
        return Verdict(changed_at > sight.since, complete=True)
    return Verdict(sight.now >= changed_at + condition.seconds, complete=True)


def _phase(wanted: tuple[str, ...], sight: Sight) -> Verdict:
    seen = sight.observation
    if seen.confidence < sight.min_confidence or seen.phase == UNKNOWN:
        return CANNOT_TELL if sight.strict else NO
    own_rung = OWN_RUNG_PHASES.get(seen.phase, seen.origin)
    if sight.strict and (seen.origin in NOT_AUTHORITATIVE or own_rung != seen.origin):
        return CANNOT_TELL
    if not any(sight.phases.is_a(seen.phase, name) for name in wanted):
        return Verdict(False, evidential=True)
    return Verdict(True, complete=seen.complete and seen.origin in EXACT_RUNGS, evidential=True)


def _text(wanted: TextIs, sight: Sight) -> Verdict:
    screen = sight.observation.screen
    if screen is None:
        return CANNOT_TELL if sight.strict else NO
    exact = screen.confidence >= sight.min_confidence
    if sight.strict and (sight.observation.origin == "vision" or not exact):
        return CANNOT_TELL
    if wanted.region is not None:
        screen = wanted.region.cut(screen)
    texts = [run[2] for run in screen.highlighted] if wanted.highlighted else [screen.text]
    return replace(_search(wanted.pattern, texts), complete=exact, evidential=True)


def _found(condition: NeedleIs | ElementIs, sight: Sight) -> Verdict:
    return _needle(condition, sight) if isinstance(condition, NeedleIs) else _element(condition, sight)


def _needle(wanted: NeedleIs, sight: Sight) -> Verdict:
    """Whether the picture was seen; it can't be told from an observation in which it wasn't looked for."""
    seen = dict(sight.observation.needles).get(wanted.key)
    return CANNOT_TELL if seen is None else Verdict(seen, evidential=True)


def _element(wanted: ElementIs, sight: Sight) -> Verdict:
    """Whether the element is there; only what was looked for since the last act tells, strictly only a moment ago."""
    key = element_key(wanted.rendered(sight.scope))
    told = next((one for one in sight.observation.elements if one.key == key), None)
    if told is None or told.at <= sight.since:
        return CANNOT_TELL
    if sight.strict and told.at < sight.now - EVIDENCE_MAX_AGE:
        return CANNOT_TELL
    if not told.count:
        return Verdict(False, evidential=True)
    return Verdict(True, complete=True, match=told.name, evidential=True, element=told)


def _serial(pattern: str, sight: Sight) -> Verdict:
    """Judge what the console said since the last input; strictly only its last line, which is how it stands now."""
    new = sight.observation.serial_end - sight.serial_mark
    said = sight.observation.serial[-new:] if new > 0 else ""
    if sight.strict:
        said = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    return replace(_search(pattern, [said] if new > 0 else []), evidential=True)


def _search(pattern: str, texts: Iterable[str]) -> Verdict:
    for text in texts:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            numbered = {str(i): g for i, g in enumerate(found.groups(), 1) if g is not None}
            named = {k: v for k, v in found.groupdict().items() if v is not None}
            return Verdict(True, complete=True, match=found.group(), groups={**numbered, **named})
    return NO


def _value(condition: ValueIs, sight: Sight) -> Verdict:
    value = render(condition.value, sight.scope)
    if condition.equals is not None:
        return Verdict(value == render(condition.equals, sight.scope), complete=True)
    if condition.among is not None:
        return Verdict(value in [render(v, sight.scope) for v in condition.among], complete=True)
    return _search(condition.matches or "", [value])


def _any(verdicts: list[Verdict]) -> Verdict:
    holding = [v for v in verdicts if v.holds]
    if holding:
        return max(holding, key=lambda v: (v.evidential, v.complete))
    return Verdict(
        False, unsure=any(v.unsure for v in verdicts), evidential=any(v.evidential for v in verdicts)
    )


def _all(verdicts: list[Verdict]) -> Verdict:
    evidential = any(v.evidential for v in verdicts)
    if not all(v.holds for v in verdicts):
        failed = any(not v.holds and not v.unsure for v in verdicts)
        return Verdict(False, unsure=not failed, evidential=evidential)
    found = next((v for v in verdicts if v.match is not None), Verdict(True))
    element = next((v.element for v in verdicts if v.element is not None), None)
    complete = all(v.complete for v in verdicts)
    return Verdict(True, complete, found.match, found.groups, evidential=evidential, element=element)


def leaves(condition: Condition | None) -> Iterator[Condition]:
    """The simple conditions that the condition is made of."""
    match condition:
        case None:
            return
        case AnyOf(parts) | AllOf(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case _:
            yield condition


def is_evidential(condition: Condition | None) -> bool:
    """Tell whether the condition looks at the machine's phase, screen, tree or serial text at all."""
    looking = PhaseIs | TextIs | NeedleIs | ElementIs | SerialIs
    return any(isinstance(leaf, looking) for leaf in leaves(condition))


def phases_in(condition: Condition | None) -> frozenset[str]:
    """Every phase that the condition names positively."""
    match condition:
        case PhaseIs(phases):
            return frozenset(phases)
        case AnyOf(parts) | AllOf(parts):
            return frozenset().union(*(phases_in(part) for part in parts))
        case _:
            return frozenset()


def templates_in(condition: Condition | None) -> Iterator[str]:
    """Every template that the condition renders."""
    for leaf in leaves(condition):
        if isinstance(leaf, ValueIs):
            yield leaf.value
            yield from [leaf.equals] if leaf.equals is not None else []
            yield from leaf.among or ()
        elif isinstance(leaf, ElementIs):
            yield from leaf.templates


def needs_screen(condition: Condition | None) -> bool:
    """Tell whether judging the condition takes an observation, not only values."""
    return any(not isinstance(leaf, ValueIs) for leaf in leaves(condition))


def capabilities_of(condition: Condition | None) -> Iterator[str]:
    """The capabilities without which the condition can never hold."""
    for leaf in leaves(condition):
        if isinstance(leaf, SerialIs):
            yield "console"
        elif isinstance(leaf, ElementIs):
            yield "accessibility"
        elif isinstance(leaf, TextIs | NeedleIs | Changed | Settled):
            yield "screen"
        elif isinstance(leaf, PhaseIs) and set(leaf.phases) <= {"power_off"}:
            yield "power"


def spell(condition: Condition | None) -> str:
    """The condition in words, as a grant prompt shows it."""
    match condition:
        case PhaseIs(phases):
            return " or ".join(phases)
        case TextIs(pattern) | SerialIs(pattern):
            return f"/{pattern}/"
        case NeedleIs():
            return f"the picture {condition.name}"
        case AnyOf(parts):
            return " or ".join(spell(part) for part in parts)
        case AllOf(parts):
            return " and ".join(spell(part) for part in parts)
        case Not(part):
            return f"not {spell(part)}"
        case None:
            return "nothing"
        case _:
            return _spell_leaf(condition)


def _spell_leaf(condition: Condition) -> str:
    match condition:
        case ElementIs(selector):
            return f"the {selector}"
        case Settled(seconds):
            return f"a screen still for {seconds:g} s"
        case ValueIs(value, equals, _, among) if equals is not None or among is not None:
            return f"{value!r} one of {', '.join(map(repr, among or [equals]))}"
        case ValueIs(value, matches=pattern):
            return f"{value!r} matching /{pattern}/"
        case _:
            return "a changed screen" if isinstance(condition, Changed) else type(condition).__name__.lower()
