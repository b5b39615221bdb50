"""Recognisers: which evidence makes which phase. Pure; `recognise` reads them from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reflexarc.observation import Phase, Phases, ScreenText
from reflexarc.sensing.evidence import Evidence, Page
from reflexarc.sensing.needle import Needle


@dataclass(frozen=True, slots=True)
class Verdict:
    """A phase for which a page speaks, how surely, and the rung whose evidence that is."""

    phase: str
    confidence: float
    complete: bool
    rung: str = "text"


@dataclass(frozen=True)
class Recogniser:
    """Evidence for one phase: all of `evidence` and none of `unless`, on a screen or on a serial console.

    The first piece of evidence is what the phase is named by: without it nothing speaks for the phase.
    confidence: how sure it is when that holds; the surest recogniser wins.
    complete: what must hold besides for the evidence to be complete (a half-drawn menu's is not).
    rung: text, needle or serial. place: the file and line that define it.
    """

    phase: str
    evidence: tuple[Evidence, ...]
    unless: tuple[Evidence, ...] = ()
    complete: tuple[Evidence, ...] = ()
    confidence: float = 0.95
    rung: str = "text"
    place: str = ""

    def judge(self, page: Page) -> Verdict | None:
        """What the page says about the phase, None where nothing speaks for it or something against it."""
        first, *rest = self.evidence
        if not first.holds(page) or any(part.holds(page) for part in self.unless):
            return None
        share = (1 + sum(part.holds(page) for part in rest)) / len(self.evidence)
        complete = share == 1 and all(part.holds(page) for part in self.complete)
        # Evidence found in part stays below every threshold, however sure the whole would be.
        sure = self.confidence * (1.0 if share == 1 else 0.75 * share)
        return Verdict(self.phase, sure, complete, self.rung)


class Recognisers:
    """All phases that are known, and the recognisers for them.

    places: the file and line that declare a phase, by its name. needles: the pictures evidence speaks of.
    """

    def __init__(
        self,
        phases: Iterable[Phase],
        recognisers: Iterable[Recogniser],
        *,
        needles: Iterable[Needle] = (),
        places: Mapping[str, str] | None = None,
    ) -> None:
        self.phases = Phases(phases)
        self.needles = tuple(needles)
        self.places = dict(places or {})
        self._all = tuple(recognisers)

    @property
    def of_screens(self) -> tuple[Recogniser, ...]:
        """Those that look at a screen."""
        return tuple(one for one in self._all if one.rung != "serial")

    def of_screen(self, page: Page) -> Verdict | None:
        """The likeliest phase of a screen; its confidence is lowered by what could not be read."""
        best = self._best(page, serial=False)
        if best is None:
            return None
        readable = page.screen.confidence
        return Verdict(best.phase, best.confidence * readable, best.complete and readable >= 0.9, best.rung)

    def of_serial(self, text: str) -> Verdict | None:
        """The likeliest phase by the text of a serial console, control sequences taken out."""
        return self._best(Page(ScreenText(tuple(text.split("\n")))), serial=True)

    def _best(self, page: Page, *, serial: bool) -> Verdict | None:
        verdicts = (one.judge(page) for one in self._all if (one.rung == "serial") is serial)
        return max(
            (verdict for verdict in verdicts if verdict),
            key=lambda verdict: (verdict.confidence, verdict.complete),
            default=None,
        )
