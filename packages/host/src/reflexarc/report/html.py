"""A run as one HTML file: no script, nothing from elsewhere, its pictures inside; at most 3 MB."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from importlib import resources

from reflexarc.report.facts import files, registered, sensing, warnings
from reflexarc.report.holds import escalations, standing
from reflexarc.report.markup import Child, Markup, element
from reflexarc.report.pictures import Album, pictures
from reflexarc.report.story import StepOutcome, Story
from reflexarc.report.text import duration, one_line
from reflexarc.report.timeline import timeline
from reflexarc.wording import counted

_MOODS = {"succeeded": "good", "failed": "bad", "aborted": "bad"}


def html_report(story: Story) -> str:
    """The document; what the machine said is escaped, and bounded where it is long."""
    style = _style()
    playbook, machine = one_line(story.state.playbook.name, 200), one_line(story.state.machine, 100)
    title = f"{playbook} on {machine}: {story.outcome}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    body = element(
        "body", _header(story, playbook, machine), element("main", *_sections(story)), _footer(story)
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _sections(story: Story) -> list[Child]:
    """What needs an eye comes first: in a run that has not succeeded, why it stands."""
    album = _album(story)
    asked = escalations(story, album)
    unsettled = story.outcome != "succeeded"
    return [
        standing(story, album),
        asked if unsettled else None,
        warnings(story),
        timeline(story, album),
        None if unsettled else asked,
        registered(story),
        files(story),
        sensing(story),
    ]


def _album(story: Story) -> Album:
    """The frames of the escalations and of the end first, then all others."""
    asked = [hold.escalation.frame.ref for hold in story.holds if hold.escalation.frame is not None]
    seen = [sight.frame.ref for step in story.steps for sight in step.sights if sight.frame is not None]
    final = [story.final.ref] if story.final is not None else []
    return Album(pictures(story.folder, [*asked, *final], seen))


def _header(story: Story, playbook: str, machine: str) -> Markup:
    mood = _MOODS.get(story.outcome, "asking")
    began = datetime.fromtimestamp(story.started).astimezone()
    passed = sum(step.outcome is StepOutcome.PASSED for step in story.steps)
    facts: Mapping[str, Child] = {
        "Started": element(
            "time", began.strftime("%Y-%m-%d %H:%M:%S %Z"), datetime=began.isoformat("T", "seconds")
        ),
        "Took": duration(story.seconds),
        "Steps": f"{passed} of {len(story.steps)}",
        "Escalations": str(len(story.holds)),
        "Cheap share": f"{story.telemetry.cheap_share:.0%}",
    }
    description = one_line(story.state.playbook.description, 500)
    return element(
        "header",
        element("p", "reflexarc", element("span", " run report"), class_="brand"),
        element("h1", playbook, element("small", "on ", element("b", machine))),
        element("p", description, class_="lead") if description else None,
        element("p", element("span", story.outcome, class_=f"badge {mood}"), class_="outcome"),
        element("dl", *(element("div", element("dt", key), element("dd", value)) for key, value in facts.items()),
                class_="facts"),
    )  # fmt: skip


def _footer(story: Story) -> Markup:
    index = story.gallery
    lost = [
        f"{counted(index.thinned, 'frame')} given up for newer ones" if index.thinned else "",
        f"{counted(index.dropped, 'frame')} not stored" if index.dropped else "",
        f"the end of the journal is damaged: {one_line(story.damage, 300)}" if story.damage else "",
    ]
    return element(
        "footer",
        element(
            "p",
            "Run ",
            element("code", story.state.run_id),
            f" · {story.telemetry.seconds:.1f} s accounted for",
        ),
        *(element("p", line) for line in lost if line),
    )


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _style() -> Markup:
    return Markup(resources.files("reflexarc.report").joinpath("style.css").read_text(encoding="utf-8"))
