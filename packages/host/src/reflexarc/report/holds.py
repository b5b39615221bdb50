"""The escalations of a run, and what a run that has not succeeded stands at."""

from __future__ import annotations

from collections.abc import Mapping

from reflexarc.report.junit import complaint
from reflexarc.report.markup import Child, Markup, element
from reflexarc.report.pictures import Picture
from reflexarc.report.story import Hold, Sight, Story
from reflexarc.report.text import bounded, duration, moment, one_line
from reflexarc.report.timeline import drawn

# Bytes of escaped text that the screens of all escalations together may take.
TEXT_BUDGET = 250_000
MAX_HOLDS = 60


def standing(story: Story, shown: Mapping[str, Picture]) -> Markup | None:
    """Why a run failed, was aborted or interrupted, with what the machine showed last; None for another run."""
    present = story.present
    if story.outcome in ("succeeded", "held") or present is None:
        return None
    _, message, text = complaint(story)
    sights = [sight for step in story.steps for sight in step.sights]
    return element(
        "section",
        element("h2", f"{story.outcome.capitalize()} at ", element("q", one_line(present.step.name, 200))),
        element("p", one_line(message, 1_000), class_="reason"),
        _screen(
            _last_picture(sights, shown), "The last screen that was kept", bounded(text.strip("\n"), 16_000)
        ),
        class_="card bad" if story.outcome in ("failed", "aborted") else "card asking",
    )


def _last_picture(sights: list[Sight], shown: Mapping[str, Picture]) -> Picture | None:
    """The picture of the phase entered last; None where that one has none, for an older one would mislead."""
    newest = max(sights, key=lambda sight: sight.at, default=None)
    return shown.get(newest.frame.ref) if newest is not None and newest.frame is not None else None


def escalations(story: Story, shown: Mapping[str, Picture]) -> Markup | None:
    """The section of the escalations, the open one with the words to answer it."""
    if not story.holds:
        return None
    limit = min(16_000, TEXT_BUDGET // len(story.holds))
    holds = story.holds[-MAX_HOLDS:]
    left_out = len(story.holds) - len(holds)
    return element(
        "section",
        element("h2", "Escalations"),
        element("p", f"{left_out} earlier ones are not shown.", class_="quiet") if left_out else None,
        *(_hold(hold, story, shown, limit) for hold in holds),
    )


def _hold(hold: Hold, story: Story, shown: Mapping[str, Picture], limit: int) -> Markup:
    held = hold.escalation
    is_open = hold.end is None and story.outcome == "held"
    picture = shown.get(held.frame.ref) if held.frame is not None else None
    expected = ", ".join(held.expected) or "what the step says"
    facts: Mapping[str, Child] = {
        "Expected": element("b", one_line(expected, 500)),
        "Seen": _seen(held.observed_phase, held.rung, held.confidence),
        "Held": "still open" if is_open else _held_for(hold, story),
        "Meanwhile": one_line(", ".join(hold.touched), 300) or None,
        "Answer": one_line(hold.answer, 500) or None,
    }
    return element(
        "article",
        element("h3", str(held.reason).replace("_", " "), element("small", f" at step {one_line(held.step_name, 200)}",
                                                                  f", {moment(hold.begin)}")),
        element("p", one_line(held.detail, 1_000), class_="reason") if held.detail else None,
        element("dl", *(element("div", element("dt", key), element("dd", value)) for key, value in facts.items()
                        if value is not None), class_="pairs"),
        _screen(picture, f"The screen at the escalation: {held.observed_phase}",
                bounded(held.text.strip("\n").rstrip(), limit)),
        _how_to_answer(story) if is_open else None,
        class_="card asking" if is_open else "card",
    )  # fmt: skip


def _seen(phase: str, rung: str, confidence: float) -> Markup:
    return element("span", element("b", phase), f" by {rung} {confidence:.2f}" if rung != "none" else None)


def _held_for(hold: Hold, story: Story) -> str:
    return duration((story.seconds if hold.end is None else hold.end) - hold.begin)


def _screen(picture: Picture | None, alt: str, text: str) -> Markup | None:
    if picture is None:
        return element("pre", text, tabindex="0") if text else None
    words = (
        element("details", element("summary", "Text"), element("pre", text, tabindex="0")) if text else None
    )
    return element("figure", drawn(picture, alt), words)


def _how_to_answer(story: Story) -> Markup:
    command = f"reflexarc runs reply {story.state.run_id} resume | amend FILE | act FILE | abort"
    return element("p", "Answer it: ", element("code", command), class_="answer")
