"""The story of a run: steps with outcomes and times, escalations with answers, as the journal has them."""

from __future__ import annotations

import pytest
from tests.played import STEPS
from tests.unit.report.conftest import story_of

from reflexarc.errors import RunError
from reflexarc.report.story import StepOutcome, Story


def outcomes(story: Story) -> dict[str, str]:
    return {step.step.name: str(step.outcome) for step in story.steps}


def test_a_run_that_succeeded(succeeded: Story) -> None:
    assert outcomes(succeeded) == {str(step["name"]): "passed" for step in STEPS}
    assert (succeeded.outcome, succeeded.holds, succeeded.present) == ("succeeded", [], None)
    decided = {step.step.name: step.decided.words for step in succeeded.steps if step.decided is not None}
    assert decided["on"] == "power_off by power"
    assert decided["second entry"] == "grub_menu by text"
    assert decided["password"] == "text"
    assert "boot" not in decided
    assert [what for _, what in succeeded.notes] == ["granted power.shutdown by api"]


def test_times_add_up(succeeded: Story) -> None:
    for step in succeeded.steps:
        for before, after in zip(step.spans, step.spans[1:], strict=False):
            assert before.end <= after.begin
    assert sum(step.seconds for step in succeeded.steps) == pytest.approx(succeeded.seconds, abs=0.05)
    assert succeeded.telemetry.seconds == pytest.approx(succeeded.seconds, abs=0.05)
    kinds = {span.kind for step in succeeded.steps if step.step.name == "user" for span in step.spans}
    assert kinds == {"waiting", "acting"}


def test_a_run_that_is_held(held: Story) -> None:
    assert outcomes(held) == {
        **dict.fromkeys(("on", "second entry", "boot"), "passed"),
        "user": "held",
        **dict.fromkeys(("password", "ask", "answer", "down", "off"), "not reached"),
    }
    (hold,) = held.holds
    assert (hold.escalation.reason, hold.escalation.step_name, hold.end) == ("off_script", "user", None)
    assert hold.escalation.frame is not None
    assert (held.folder / hold.escalation.frame.ref).exists()
    assert held.present is not None
    assert [sight.observation.phase for sight in held.present.sights][-1] == "crash_screen"


def test_a_run_that_failed_after_two_answers(failed: Story) -> None:
    assert failed.outcome == "failed"
    assert [(step.step.name, step.outcome) for step in failed.steps] == [
        ("on", StepOutcome.PASSED),
        ("menu", StepOutcome.PASSED),
        ("never", StepOutcome.LEFT),
        ("more", StepOutcome.PASSED),
        ("skipped", StepOutcome.SKIPPED),
        ("stop", StepOutcome.FAILED),
        ("after", StepOutcome.NOT_REACHED),
    ]
    assert [hold.escalation.reason for hold in failed.holds] == ["timeout", "timeout"]
    assert [hold.answer for hold in failed.holds] == [
        "1 more step, then the held one again (<b>somebody</b>)",
        "amended the playbook, to go on at 'skipped' (<b>somebody</b>)",
    ]
    assert all(hold.end is not None and hold.end >= hold.begin for hold in failed.holds)


def test_telemetry_of_a_run(failed: Story, succeeded: Story) -> None:
    cost = failed.telemetry.as_dict()
    assert cost["escalations"] == {"timeout": 2}
    assert cost["replies"] == {"act": 1, "amend": 1}
    assert (cost["vision_calls"], cost["retries"], cost["warnings"]) == (0, 0, [])
    reads = succeeded.telemetry.reads
    assert reads["text"] >= 4
    assert reads["power"] >= 1
    resolved = sum(reads.values()) - reads["none"]
    assert succeeded.telemetry.cheap_resolves == resolved
    assert succeeded.telemetry.cheap_share == resolved / sum(reads.values())


def test_a_run_that_is_not_there(succeeded: Story) -> None:
    with pytest.raises(RunError, match="there is no run nothing"):
        story_of(succeeded.folder.parents[1], "nothing")
