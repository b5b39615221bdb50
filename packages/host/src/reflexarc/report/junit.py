"""Runs as JUnit XML: a test suite a run, a test case a step; a run that is held counts as failed.

Source: the dialect that Ant's JUnitReport task writes and CI systems read; names, order and attributes are its.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from reflexarc.report.story import StepOutcome, StepStory, Story
from reflexarc.report.text import bounded, duration, moment, one_line

MAX_MESSAGE = 1_000
MAX_TEXT = 32_000
MAX_VALUES = 100

_FAILED = frozenset({StepOutcome.FAILED, StepOutcome.ABORTED, StepOutcome.HELD})
_ERRORS = frozenset({StepOutcome.INTERRUPTED, StepOutcome.UNDER_WAY})
_SKIPPED = {
    StepOutcome.SKIPPED: "its condition did not hold",
    StepOutcome.NOT_REACHED: "the run did not come this far",
    StepOutcome.LEFT: "it was held, and the answer went on elsewhere",
}


def junit(stories: Sequence[Story]) -> bytes:
    """The document, in UTF-8."""
    root = Xml.Element("testsuites")
    for number, story in enumerate(stories):
        root.append(_suite(number, story))
    Xml.indent(root)
    out = io.BytesIO()
    Xml.ElementTree(root).write(out, encoding="utf-8", xml_declaration=True)
    return out.getvalue() + b"\n"


def _suite(number: int, story: Story) -> Xml.Element:
    name = one_line(story.state.playbook.name, 200) or "playbook"
    machine = one_line(story.state.machine, 200) or "machine"
    outcomes = [step.outcome for step in story.steps]
    suite = Xml.Element(
        "testsuite",
        {
            "id": str(number),
            "name": name,
            "package": machine,
            "hostname": machine,
            "timestamp": datetime.fromtimestamp(story.started, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            "time": f"{story.seconds:.3f}",
            "tests": str(len(story.steps)),
            "failures": str(sum(outcome in _FAILED for outcome in outcomes)),
            "errors": str(sum(outcome in _ERRORS for outcome in outcomes)),
            "skipped": str(sum(outcome in _SKIPPED for outcome in outcomes)),
        },
    )
    properties = Xml.SubElement(suite, "properties")
    for key, value in _properties(story).items():
        Xml.SubElement(properties, "property", {"name": key, "value": value})
    for step in story.steps:
        suite.append(_case(story, step, f"{machine}.{name}"))
    Xml.SubElement(suite, "system-out").text = bounded(_told(story), MAX_TEXT)
    Xml.SubElement(suite, "system-err").text = bounded("\n".join(story.state.warnings), MAX_TEXT)
    return suite


def _case(story: Story, step: StepStory, suite: str) -> Xml.Element:
    attributes = {
        "name": one_line(step.step.name, 500) or "step",
        "classname": suite,
        "time": f"{step.seconds:.3f}",
    }
    case = Xml.Element("testcase", attributes)
    if step.outcome in _SKIPPED:
        Xml.SubElement(case, "skipped", {"message": _SKIPPED[step.outcome]})
    elif step.outcome is not StepOutcome.PASSED:
        kind, message, text = complaint(story)
        tag = "failure" if step.outcome in _FAILED else "error"
        found = Xml.SubElement(case, tag, {"type": kind, "message": one_line(message, MAX_MESSAGE)})
        found.text = bounded(text, MAX_TEXT)
    return case


def complaint(story: Story) -> tuple[str, str, str]:
    """Why a run that has not succeeded stands where it does: a kind, a sentence, the text on the screen."""
    held = story.state.escalation
    text = story.last.observation.text.rstrip() if story.last is not None else ""
    if story.outcome == "held" and held is not None:
        expected = ", ".join(held.expected) or "what the step says"
        message = f"{held.reason}: expected {expected}; the machine shows {held.observed_phase}"
        return str(held.reason), f"{message}. {held.detail}" if held.detail else message, held.text.rstrip()
    if story.outcome in ("interrupted", "running"):
        return story.outcome, f"the run is {story.outcome}; it has not ended", text
    return story.outcome, story.state.reason or story.outcome, text


def _properties(story: Story) -> Mapping[str, str]:
    cost = story.telemetry
    found = {
        "run_id": story.state.run_id,
        "outcome": story.outcome,
        "cheap_share": f"{cost.cheap_share:.4f}",
        "vision_calls": str(cost.vision_calls),
        "retries": str(cost.retries),
    }
    found |= {f"reads.{rung}": str(count) for rung, count in sorted(cost.reads.items())}
    found |= {f"escalations.{reason}": str(count) for reason, count in sorted(cost.escalations.items())}
    for name, value in list(story.state.registered.items())[:MAX_VALUES]:
        shown = value.get("match") or value if isinstance(value, Mapping) else value
        found[f"registered.{name}"] = str(shown)
    return {one_line(key, 200): one_line(value, MAX_MESSAGE) for key, value in found.items()}


def _told(story: Story) -> str:
    """The course of the run in lines: what each step ended on, and every escalation with its answer."""
    lines = [
        f"{duration(step.seconds):>12}  {step.step.name}: {step.outcome}"
        + (f" on {step.decided.words}" if step.decided else "")
        for step in story.steps
    ]
    lines += [
        f"at {moment(hold.begin)} held at {hold.escalation.step_name}: {hold.escalation.reason}; "
        f"{hold.answer or 'not answered'}"
        for hold in story.holds
    ]
    return "\n".join([*lines, *(f"at {moment(at)} {what}" for at, what in story.notes)])
