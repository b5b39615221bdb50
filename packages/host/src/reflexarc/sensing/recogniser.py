"""Recognisers: which evidence makes which phase. Pure; `recognise` reads them from files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from reflexarc.machine.accessibility import Selector
from reflexarc.observation import CONFIDENT, Phase, Phases, ScreenText
from reflexarc.sensing.evidence import Evidence, Page
from reflexarc.sensing.needle import Needle, Patch
from reflexarc.sensing.tree import TreeReading, selectors_in
from reflexarc.sensing.verdict import Answer


@dataclass(frozen=True)
class Recogniser:
    """Evidence for one phase: all of `evidence` and none of `unless`, on a screen, a serial console or in a tree.

    The first piece of evidence is what the phase is named by: without it nothing speaks for the phase.
    confidence: how sure it is when that holds; the surest recogniser wins.
    complete: what must hold besides for the evidence to be complete (a half-drawn menu's is not).
    rung: text, needle, serial or accessibility; taught for what an agent taught. source: what it looks at: screen,
    serial or tree. place: the file and line that define it.
    taught: it was taught at a hold, and so never stands against an alarm; an agent's, against nothing that is sure.
    """

    phase: str
    evidence: tuple[Evidence, ...]
    unless: tuple[Evidence, ...] = ()
    complete: tuple[Evidence, ...] = ()
    confidence: float = 0.95
    rung: str = "text"
    source: str = "screen"
    place: str = ""
    taught: bool = False

    def judge(self, page: Page) -> Answer | None:
        """What the page says about the phase, None where nothing speaks for it or something against it."""
        first, *rest = self.evidence
        if not first.holds(page) or any(part.holds(page) for part in self.unless):
            return None
        share = (1 + sum(part.holds(page) for part in rest)) / len(self.evidence)
        complete = share == 1 and not self.taught and all(part.holds(page) for part in self.complete)
        # Evidence found in part stays below every threshold, however sure the whole would be.
        sure = self.confidence * (1.0 if share == 1 else 0.75 * share)
        return Answer(self.phase, sure, self.rung, complete)


class Recognisers:
    """All phases that are known, and the recognisers for them.

    places: the file and line that declare a phase, by its name. needles, patches: the pictures evidence speaks of, by
    their names.
    """

    def __init__(
        self,
        phases: Iterable[Phase],
        recognisers: Iterable[Recogniser],
        *,
        needles: Collection[Needle | Patch] = (),
        places: Mapping[str, str] | None = None,
    ) -> None:
        self.phases = Phases(phases)
        self.needles = {one.name: one for one in needles if isinstance(one, Needle)}
        self.patches = {one.name: one for one in needles if isinstance(one, Patch)}
        self.places = dict(places or {})
        self._all = tuple(recognisers)

    @property
    def of_screens(self) -> tuple[Recogniser, ...]:
        """Those that look at a screen."""
        return tuple(one for one in self._all if one.source == "screen")

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """The elements of a guest's tree that evidence speaks of."""
        of_trees = (one for one in self._all if one.source == "tree")
        pieces = (piece for one in of_trees for piece in (*one.evidence, *one.unless, *one.complete))
        return tuple(dict.fromkeys(selector for piece in pieces for selector in selectors_in(piece)))

    def of_screen(self, page: Page) -> Answer | None:
        """The likeliest phase of a screen; its confidence is lowered by what could not be read."""
        best = self._best(page, "screen")
        if best is None:
            return None
        readable = page.screen.confidence
        return Answer(best.phase, best.confidence * readable, best.rung, best.complete and readable >= 0.9)

    def of_serial(self, text: str) -> Answer | None:
        """The likeliest phase by the text of a serial console, control sequences taken out."""
        return self._best(Page(ScreenText(tuple(text.split("\n")))), "serial")

    def of_tree(self, tree: TreeReading) -> Answer | None:
        """The likeliest phase by a guest's accessibility tree."""
        return self._best(Page(ScreenText(()), tree=tree), "tree")

    def with_lessons(self, lessons: Iterable[Recogniser], patches: Iterable[Patch]) -> Recognisers:
        """These and what was taught besides; phases that nobody knew are known then."""
        taught = tuple(lessons)
        new = dict.fromkeys(one.phase for one in taught if one.phase not in self.phases)
        return Recognisers(
            [*self.phases.values(), *map(Phase, new)],
            [*self._all, *taught],
            needles=[*self.needles.values(), *self.patches.values(), *patches],
            places=self.places,
        )

    def _best(self, page: Page, source: str) -> Answer | None:
        judged = [
            (one, answer)
            for one in self._all
            if one.source == source and (answer := one.judge(page)) is not None
        ]
        given = [answer for one, answer in judged if not one.taught]
        sure = [answer for answer in given if answer.confidence >= CONFIDENT]
        alarmed = any(self._alarms(answer.phase) for answer in sure)
        taught = [answer for one, answer in judged if one.taught and not alarmed]
        heard = [answer for answer in taught if answer.rung != "taught" or not sure]
        return max((*given, *heard), key=lambda answer: (answer.confidence, answer.complete), default=None)

    def _alarms(self, phase: str) -> bool:
        return any(self.phases.is_a(phase, name) for name, known in self.phases.items() if known.alarm)
