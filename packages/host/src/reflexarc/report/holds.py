"""The escalations of a run, and what a run that has not succeeded stands at."""

from __future__ import annotations

from collections.abc import Mapping

from reflexarc.report.junit import complaint
from reflexarc.report.markup import Child, Markup, element
from reflexarc.report.pictures import Album
from reflexarc.report.story import Hold, Story
from reflexarc.report.text import bounded, duration, moment, one_line
from reflexarc.report.timeline import drawn

# Bytes of escaped text that the screens of all escalations together may take.
TEXT_BUDGET = 250_000
MAX_HOLDS = 60


def standing(story: Story, album: Album) -> Markup | None:
    """Why a run failed, was aborted or interrupted, with what the machine showed last; None for another run."""
    present = story.present
    if story.outcome in ("succeeded", "held") or present is None:
        return None
    _, message, text = complaint(story)
    screen = _screen(
        album, story.final.ref if story.final is not None else None, "the end", bounded(text, 16_000)
    )
    return element(
        "section",
        element("h2", f"{story.outcome.capitalize()} at ", element("q", one_line(present.step.name, 200))),
        element("p", one_line(message, 1_000), class_="reason"),
        screen,
        class_="card bad" if story.outcome in ("failed", "aborted") else "card asking",
    )


def escalations(story: Story, album: Album) -> Markup | None:
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
        *(_hold(hold, story, album, limit) for hold in holds),
    )


def _hold(hold: Hold, story: Story, album: Album, limit: int) -> Markup:
    held = hold.escalation
    is_open = hold.end is None and story.outcome == "held"
    ref = held.frame.ref if held.frame is not None else None
    share = limit // 2 if held.outline else limit
    expected = ", ".join(held.expected) or "what the step says"
    facts: Mapping[str, Child] = {
        "Expected": element("b", one_line(expected, 500)),
        "Sighting": _seen(held.observed_phase, held.rung, held.confidence),
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
        _screen(album, ref, f"{moment(hold.begin)}, {held.observed_phase}", bounded(held.text.rstrip(), share)),
        _outline(bounded(held.outline.rstrip(), share)),
        _how_to_answer(story) if is_open else None,
        class_="card asking" if is_open else "card",
    )  # fmt: skip


def _seen(phase: str, rung: str, confidence: float) -> Markup:
    return element("span", element("b", phase), f" by {rung} {confidence:.2f}" if rung != "none" else None)


def _held_for(hold: Hold, story: Story) -> str:
    return duration((story.seconds if hold.end is None else hold.end) - hold.begin)


def _screen(album: Album, ref: str | None, where: str, text: str) -> Markup | None:
    """A screen: its picture and behind it its text, or its text alone."""
    earlier = album.where(ref) if ref is not None else None
    picture = album.take(ref, where) if ref is not None else None
    words = element("pre", text, tabindex="0") if text else None
    if picture is None and earlier is None:
        return words and element("div", words)
    folded = element("details", element("summary", "Text"), words) if words else None
    if picture is None:
        return element("figure", element("p", f"The screen was as at {earlier}.", class_="quiet"), folded)
    return element("figure", drawn(picture, f"The screen at {where}"), folded)


def _outline(text: str) -> Markup | None:
    """The accessibility outline of the application in front."""
    if not text:
        return None
    return element("details", element("summary", "Elements"), element("pre", text, tabindex="0"))


def _how_to_answer(story: Story) -> Markup:
    command = f"reflexarc runs reply {story.state.run_id} resume | amend FILE | act FILE | teach … | abort"
    return element("p", "Answer it: ", element("code", command), class_="answer")
