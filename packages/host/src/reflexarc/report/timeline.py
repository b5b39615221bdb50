"""The steps of a run as a waterfall, each with the phases that the machine entered meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from reflexarc.report.markup import Child, Markup, element
from reflexarc.report.pictures import Album, Picture
from reflexarc.report.story import Sighting, Span, StepOutcome, StepStory, Story
from reflexarc.report.text import bounded, duration, moment, one_line

# Bytes of escaped text that all screens together may take, and sights and steps that are shown at most.
TEXT_BUDGET = 250_000
MAX_SIGHTS = 400
MAX_STEPS = 500
MAX_CHIPS = 12
LEAST_WIDTH = 0.4

_QUIET = frozenset({StepOutcome.SKIPPED, StepOutcome.NOT_REACHED, StepOutcome.LEFT})
_MARKS = {StepOutcome.PASSED: "✓", StepOutcome.FAILED: "✕", StepOutcome.ABORTED: "✕", StepOutcome.HELD: "?"}


def timeline(story: Story, album: Album) -> Markup:
    """The section of the steps."""
    steps = story.steps[:MAX_STEPS]
    sights = _Sights(story, album)
    more = len(story.steps) - len(steps)
    return element(
        "section",
        element("h2", "Steps"),
        _legend(story.seconds),
        element("ol", *(_step(step, story, sights) for step in steps), class_="steps"),
        element("p", f"{more} more steps are not shown.", class_="quiet") if more else None,
        _notes(story),
    )


def _legend(seconds: float) -> Markup:
    keys = (("waiting", "waiting"), ("acting", "acting"), ("held", "held"))
    return element(
        "div",
        element(
            "p", *(element("span", words, class_=f"key {kind}") for kind, words in keys), class_="legend"
        ),
        element(
            "p", element("span", "0"), element("span", duration(seconds)), class_="axis", aria_hidden="true"
        ),
        class_="row head",
    )


def _step(step: StepStory, story: Story, sights: _Sights) -> Markup:
    quiet = step.outcome in _QUIET
    standing = "good" if step.outcome is StepOutcome.PASSED else "quiet" if quiet else "bad"
    if step.outcome in (StepOutcome.HELD, StepOutcome.UNDER_WAY, StepOutcome.INTERRUPTED):
        standing = "asking"
    mark = element("span", _MARKS.get(step.outcome, "·"), class_=f"mark {standing}", aria_hidden="true")
    return element(
        "li",
        element(
            "div",
            mark,
            element("div", element("h3", one_line(step.step.name, 300)), _did(step), class_="what"),
            element("span", str(step.outcome) if quiet else duration(step.seconds), class_="took"),
            None if quiet and not step.spans else _bar(step, story.seconds),
            class_="row",
        ),
        sights.of(step),
        class_=f"step {standing}",
    )


def _did(step: StepStory) -> Markup:
    """What the step did and what let it: action, phase and rung, note."""
    action = step.step.action
    times = f" × {step.acts}" if step.acts > 1 else ""
    parts: list[Child] = [element("code", f"{action}{times}") if action else "wait"]
    if step.decided is not None:
        parts += [" on ", element("b", step.decided.words.partition(" by ")[0])]
        if step.decided.rung != "none":
            parts += [f" by {step.decided.rung} {step.decided.observation.confidence:.2f}"]
    if step.outcome not in (StepOutcome.PASSED, *_QUIET):
        parts += [" · ", element("b", str(step.outcome), class_="outcome")]
    if step.note:
        parts += [" · ", one_line(step.note, 500)]
    return element("p", *parts)


def _bar(step: StepStory, seconds: float) -> Markup:
    spent = dict.fromkeys(("waiting", "acting", "held"), 0.0)
    for span in step.spans:
        spent[span.kind] += span.end - span.begin
    label = ", ".join(f"{duration(took)} {kind}" for kind, took in spent.items() if took) or "no time"
    return element(
        "svg",
        element("title", label),
        *(_rect(span, max(seconds, 0.001)) for span in step.spans[:200]),
        class_="bar",
        role="img",
        aria_label=label,
    )


def _rect(span: Span, seconds: float) -> Markup:
    width = max(LEAST_WIDTH, (span.end - span.begin) / seconds * 100)
    begin = min(span.begin / seconds * 100, 100 - width)
    return element(
        "rect", class_=span.kind, x=f"{max(0.0, begin):.3f}%", width=f"{min(width, 100):.3f}%", height="100%"
    )


class _Sights:
    """The phases that were entered: with a picture where one was kept, which a click makes large."""

    def __init__(self, story: Story, album: Album) -> None:
        self._album = album
        self._chosen = self._choice([sight for step in story.steps for sight in step.sights])
        self._text = TEXT_BUDGET // max(1, len(self._chosen))

    def _choice(self, sights: Sequence[Sighting]) -> frozenset[int]:
        """The identities of those that are shown: those with a picture, and the first of the others."""
        pictured = [sight for sight in sights if self._has_picture(sight)]
        others = [sight for sight in sights if not self._has_picture(sight)]
        return frozenset(id(sight) for sight in [*pictured, *others][:MAX_SIGHTS])

    def _has_picture(self, sight: Sighting) -> bool:
        return sight.frame is not None and self._album.has(sight.frame.ref)

    def of(self, step: StepStory) -> Markup | None:
        """The sights of one step: pictures first, then the phases that have none of their own."""
        sights = [sight for sight in step.sights if id(sight) in self._chosen]
        if not step.sights:
            return None
        shots: list[Child] = []
        chips: list[Child] = []
        for sight in sights:
            shot = self._shot(sight)
            (chips if shot is None else shots).append(shot or self._chip(sight))
        left_out = len(step.sights) - len(sights)
        if left_out:
            chips.append(element("li", f"and {left_out} more", class_="chip"))
        return element(
            "div",
            element("div", *shots, class_="shots") if shots else None,
            element("ul", *chips[:MAX_CHIPS], class_="chips") if chips else None,
            element(
                "details",
                element("summary", f"{len(chips) - MAX_CHIPS} more phases", class_="quiet"),
                element("ul", *chips[MAX_CHIPS:], class_="chips"),
            )
            if len(chips) > MAX_CHIPS
            else None,
            class_="sights",
        )

    def _shot(self, sight: Sighting) -> Markup | None:
        if sight.frame is None or (picture := self._album.take(sight.frame.ref, moment(sight.at))) is None:
            return None
        seen = sight.observation
        text = bounded(seen.text.strip("\n").rstrip(), self._text)
        return element(
            "details",
            element(
                "summary", drawn(picture, f"The screen at {moment(sight.at)}: {seen.phase}"), _caption(sight)
            ),
            element("pre", text, tabindex="0") if text else element("p", "No text was read.", class_="quiet"),
            class_="shot",
        )

    def _chip(self, sight: Sighting) -> Markup:
        where = self._album.where(sight.frame.ref) if sight.frame is not None else None
        same = (
            element("span", f" · as at {where}") if where is not None and where != moment(sight.at) else None
        )
        return element("li", _caption(sight), same, class_="chip")


def _caption(sight: Sighting) -> Markup:
    seen = sight.observation
    sure = f" · {sight.rung} {seen.confidence:.2f}" if sight.rung != "none" else ""
    return element(
        "span", element("b", seen.phase), element("span", moment(sight.at) + sure), class_="caption"
    )


def drawn(picture: Picture, alt: str) -> Markup:
    """A picture as an image element."""
    return element("img", src=picture.uri, alt=alt, width=picture.width, height=picture.height)


def _notes(story: Story) -> Markup | None:
    if not story.notes:
        return None
    lines = [
        element("li", element("span", moment(at), class_="when"), " ", one_line(what, 300))
        for at, what in story.notes[:100]
    ]
    return element("ul", *lines, class_="notes")
