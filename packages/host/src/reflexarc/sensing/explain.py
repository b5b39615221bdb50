"""Why a frame is taken for a phase: which evidence of each recogniser held, and which did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reflexarc.machine.frame import Frame
from reflexarc.observation import Observation
from reflexarc.sensing.evidence import Evidence, Page
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recogniser import Recogniser, Recognisers
from reflexarc.sensing.text import TextRung

Judged = tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Candidate:
    """One recogniser on one page: each piece of its evidence, and whether it held.

    confidence: 0 where nothing speaks for the phase or something of `unless` held.
    """

    phase: str
    place: str
    rung: str
    confidence: float
    complete: bool
    evidence: Judged
    unless: Judged
    completing: Judged

    @property
    def is_near(self) -> bool:
        """Tell whether any of its evidence held."""
        return any(held for _, held in self.evidence)


@dataclass(frozen=True)
class Explanation:
    """What a frame was taken for, the needles on it, and every recogniser, the likeliest first."""

    observation: Observation
    needles: tuple[str, ...]
    candidates: tuple[Candidate, ...]


def explain(frame: Frame, recognisers: Recognisers) -> Explanation:
    """Read a frame by itself and say what each recogniser makes of it."""
    observation = Ladder(recognisers).read(Readings(at=frame.captured, frame=frame))
    page, _ = TextRung(recognisers).page(frame)
    candidates = [_judge(one, page) for one in recognisers.of_screens]
    candidates.sort(key=lambda one: (-one.confidence, not one.is_near))
    return Explanation(observation, tuple(sorted(page.needles)), tuple(candidates))


def _judge(recogniser: Recogniser, page: Page) -> Candidate:
    verdict = recogniser.judge(page)
    return Candidate(
        phase=recogniser.phase,
        place=recogniser.place,
        rung=recogniser.rung,
        confidence=verdict.confidence * page.screen.confidence if verdict else 0.0,
        complete=verdict is not None and verdict.complete,
        evidence=_held(recogniser.evidence, page),
        unless=_held(recogniser.unless, page),
        completing=_held(recogniser.complete, page),
    )


def _held(pieces: Sequence[Evidence], page: Page) -> Judged:
    return tuple((str(piece), piece.holds(page)) for piece in pieces)
