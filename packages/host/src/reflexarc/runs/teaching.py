"""Lessons of a run: checked when they are replied, put before the senses, and kept for later runs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reflexarc import patterns
from reflexarc.errors import PlaybookError
from reflexarc.observation import CONFIDENT, OWN_RUNG_PHASES, UNKNOWN
from reflexarc.playbook import needles
from reflexarc.playbook.document import of_data
from reflexarc.playbook.element_loader import load_selector
from reflexarc.playbook.events import Lesson
from reflexarc.playbook.state import Escalation, RunState
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.taught import Taught, keep
from reflexarc.sensing.watcher import Watcher

MAX_LESSONS = 20
_PHASE = re.compile(r"[a-z][a-z0-9_]{0,63}")


def is_agent(by: str) -> bool:
    """Tell whether a reply's `by` names an agent: `agent`, also with more words after it."""
    return by.split(maxsplit=1)[:1] == ["agent"]


def lesson_of(
    state: RunState,
    held: Escalation,
    *,
    phase: str,
    text: str,
    needle: str | bytes,
    element: Mapping[str, object] | None,
    by: str,
) -> Lesson:
    """Check a reply that teaches.

    Raises PlaybookError where its evidence is none, is not on the screen that is asked about, could be anywhere, or
    would stand against what must not be hidden.
    """
    if not isinstance(phase, str) or not _PHASE.fullmatch(phase):
        raise PlaybookError("the phase to teach is a name of small letters, digits and _")
    if phase in OWN_RUNG_PHASES or phase == UNKNOWN:
        raise PlaybookError(f"{phase} is told by a sensor of its own, and can't be taught")
    if not isinstance(text, str) or not isinstance(needle, str | bytes):
        raise PlaybookError("the text that is taught is a regular expression, the needle a PNG picture")
    if (element is not None) is bool(text or needle):
        raise PlaybookError(
            "teach needs a text (a regular expression), a needle (a PNG picture), or both; or an element alone"
        )
    if len(state.lessons) >= MAX_LESSONS:
        raise PlaybookError(f"a run takes {MAX_LESSONS} lessons at most")
    _check_phase(state, held, phase, agent=is_agent(by))
    if element is not None:
        return Lesson(phase, by_agent=is_agent(by), element=_checked_element(held, element))
    if text:
        _check_text(held, text)
    image = base64.b64encode(needle).decode() if isinstance(needle, bytes) else needle
    if image:
        try:
            needles.decode(image)
        except ValueError as error:
            raise PlaybookError(f"needle: {error}") from error
    return Lesson(phase, text, image, is_agent(by))


def _check_phase(state: RunState, held: Escalation, phase: str, *, agent: bool) -> None:
    """Refuse lessons on screens whose phase is told already and must not be hidden."""
    shown = held.observed_phase
    alarms = [name for name, known in state.phases.items() if known.alarm]
    if any(state.phases.is_a(shown, alarm) and not state.phases.is_a(phase, alarm) for alarm in alarms):
        raise PlaybookError(
            f"the machine shows {shown}, which is an alarm: nothing else can be taught of this screen"
        )
    if agent and shown not in ("", UNKNOWN, phase) and held.confidence >= CONFIDENT:
        raise PlaybookError(f"this screen is {shown} already; an agent teaches only what nothing recognises")


def _checked_element(held: Escalation, element: Mapping[str, object]) -> Mapping[str, str]:
    """What tells the element; it has a name or a text that is in the outline of what the run asks about."""
    document = of_data(element, None)
    load_selector(document, (), element)
    told = {key: value for key, value in element.items() if isinstance(value, str)}
    for key in element:
        if key not in told and element[key] is not None:
            raise PlaybookError(f"element: {key} can't be taught; role, name, value and text can")
    if any("{{" in text for text in told.values()):
        raise PlaybookError("element: what is taught is written out")
    if not held.outline:
        raise PlaybookError(
            "element: no agent in the guest answered when the run was held; use text or needle"
        )
    known = [told[key] for key in ("name", "text", "value") if key in told]
    if not known or not all(json.dumps(text, ensure_ascii=False)[1:-1] in held.outline for text in known):
        raise PlaybookError("element: its name, text or value is not in the outline that the run shows")
    return told


def _check_text(held: Escalation, text: str) -> None:
    wrong = patterns.problem(text)
    if wrong is not None:
        raise PlaybookError(f"text: {wrong}")
    pattern = re.compile(text, re.MULTILINE)
    if pattern.search("") is not None:
        raise PlaybookError("text: the pattern is found on an empty screen, so it would be on any")
    if pattern.search(held.text) is None:
        raise PlaybookError("text: the pattern is not on the screen that the run asks about")


@dataclass
class Pupil:
    """Puts what a run was taught before the senses that watch its machine.

    known: how many lessons were kept before, in this process or another. folder: of the user's phases, None where
    nothing is kept.
    """

    watcher: Watcher
    folder: Path | None
    known: int
    _before: Recognisers = field(init=False)
    _learnt: int = 0

    def __post_init__(self) -> None:
        self._before = self.watcher.recognisers

    def learn(self, state: RunState) -> None:
        """Recognise by all lessons of the run from now on; keep the new ones. Raises ConfigError."""
        if len(state.lessons) == self._learnt:
            return
        self._learnt = len(state.lessons)
        lessons = [self._taught(lesson) for lesson in state.lessons]
        self._recognise(lessons)
        for taught in lessons[self.known :]:
            if self.folder is not None:
                keep(self.folder, taught, state.run_id)
        self.known = self._learnt

    def leave(self, state: RunState) -> None:
        """The run has ended: what an agent taught it serves nothing else."""
        if self._learnt:
            self._recognise([t for t in map(self._taught, state.lessons) if not t.by_agent])

    def _taught(self, lesson: Lesson) -> Taught:
        png = base64.b64decode(lesson.needle) if lesson.needle else b""
        new = lesson.phase not in self._before.phases
        return Taught(lesson.phase, lesson.text, png, lesson.by_agent, new, lesson.element)

    def _recognise(self, lessons: Iterable[Taught]) -> None:
        taught = list(lessons)
        patches = {patch.name: patch for one in taught for patch in one.patches()}
        recognisers = [one.recogniser() for one in taught]
        self.watcher.learn(self._before.with_lessons(recognisers, patches.values()))
