"""The life of a step: entering it, deciding on its action, leaving it, asking, ending; pure."""

from __future__ import annotations

from dataclasses import replace

from reflexarc.errors import PlaybookError
from reflexarc.observation import UNKNOWN, Observation
from reflexarc.playbook import grants, waiting
from reflexarc.playbook.conditions import Verdict, evaluate, needs_screen, phases_in
from reflexarc.playbook.model import Step
from reflexarc.playbook.state import Escalation, Outcome, Reason, RunState, Stage

MAX_TEXT = 16_000
MAX_HISTORY = 50


def enter(state: RunState, index: int, at: float) -> RunState:
    """Begin the first step from `index` on that applies, or end the run after the last one."""
    for candidate in range(index, len(state.playbook.steps)):
        state = replace(
            state, index=candidate, since=at, matching_since=None, alarm=None, evidence=None, attempts=0
        )
        try:
            skipped = _skipped(state, at)
            must_change = state.acted and was_seen(state, state.step)
        except PlaybookError as error:
            return escalate(state, Reason.ACTION_FAILED, at, state.seen, detail=str(error))
        if not skipped:
            return _begin(replace(state, must_change=must_change), at)
    return end(state, Outcome.SUCCEEDED, "")


def _skipped(state: RunState, at: float) -> bool:
    """Tell whether values alone say that the step doesn't apply."""
    when = state.step.when
    if when is None or needs_screen(when):
        return False
    return not evaluate(when, waiting.sight(state, waiting.NOTHING, at)).holds


def _begin(state: RunState, at: float) -> RunState:
    if state.step.when is not None and needs_screen(state.step.when):
        return replace(state, stage=Stage.WAITING, applies=False)
    state = replace(state, stage=Stage.WAITING, applies=True)
    return state if state.step.wait_for is not None else decide(state, at)


def was_seen(state: RunState, step: Step) -> bool:
    """Tell whether the last step already saw what this one awaits."""
    if state.seen is None or step.wait_for is None:
        return False
    return evaluate(step.wait_for, waiting.sight(state, state.seen, state.seen.at, since=float("-inf"))).holds


def decide(state: RunState, at: float, verdict: Verdict | None = None) -> RunState:
    """The step's wait is over: go on to its action."""
    step = state.step
    state = replace(state, matching_since=None, alarm=None, since=at)
    found = waiting.result(state, verdict) if verdict is not None and step.register else {}
    state = replace(state, found=found)
    if found and step.action is None:
        state = registering(state, found)
    if step.action == "wait":
        return replace(state, stage=Stage.EXPECTING)
    if step.action is None:
        return enter(replace(state, acted=False), state.index + 1, at)
    if step.authorisation is None:
        return replace(state, stage=Stage.FIRING)
    why = _refusal(state, step)
    if why is not None:
        return escalate(state, Reason.NEEDS_AUTHORIZATION, at, state.seen, detail=why)
    return replace(state, stage=Stage.VERIFYING)


def _refusal(state: RunState, step: Step) -> str | None:
    asked = [step.authorisation] if step.authorisation and step.name in state.requested else []
    return grants.refusal(
        step,
        machine=state.machine,
        requested=(*state.playbook.authorize, *asked),
        policy=state.policy,
        granted=state.grants.get(state.key_of(step), 0) > 0,
    )


def sent(state: RunState, at: float) -> RunState:
    """Evidence from before an input no longer counts."""
    spec = state.step.spec
    if spec is None or not spec.sends_input:
        return state
    lingering = state.phase or None
    return replace(state, sent_at=at, input_sent=True, acted=True, lingering=lingering, taken_up=False)


def after_act(state: RunState, at: float) -> RunState:
    """The act was sent: await what it must lead to, else go on with the next step."""
    if state.step.expect is None:
        return enter(state, state.index + 1, at)
    expected = replace(state.step, wait_for=state.step.expect)
    return replace(
        state,
        stage=Stage.EXPECTING,
        since=at,
        matching_since=None,
        must_change=state.acted and was_seen(state, expected),
    )


def registering(state: RunState, result: object) -> RunState:
    """Keep the step's result under the name it registers."""
    return replace(state, registered={**state.registered, str(state.step.register): result})


def escalate(
    state: RunState, reason: Reason, at: float, seen: Observation | None, *, detail: str = ""
) -> RunState:
    """Hold the run and ask; a run that asks too often fails."""
    if state.failing is not None:
        return end(state, Outcome.FAILED, f"{state.step.name}: {detail or reason}")
    if state.escalations >= state.max_escalations:
        return end(
            state, Outcome.FAILED, f"more than {state.max_escalations} escalations; the last: {reason}", at
        )
    step = state.step
    awaited = step.expect if state.stage is Stage.EXPECTING else (step.wait_for or step.precondition)
    escalation = Escalation(
        id=state.escalations + 1,
        at=at,
        step_index=state.index,
        step_name=step.name,
        reason=reason,
        expected=tuple(sorted(phases_in(awaited))),
        detail=detail,
        observed_phase=seen.phase if seen else UNKNOWN,
        confidence=seen.confidence if seen else 0.0,
        rung=(seen.origin or seen.rung) if seen else "none",
        text=seen.text[-MAX_TEXT:] if seen else "",
        history=state.history[-MAX_HISTORY:],
    )
    return replace(
        state,
        stage=Stage.HELD,
        since=at,
        escalation=escalation,
        escalations=state.escalations + 1,
        alarm=None,
    )


def end(state: RunState, outcome: Outcome, reason: str, at: float | None = None) -> RunState:
    """End the run; one that fails first goes back to the saved state that its playbook names, where it may."""
    if state.failing is not None:
        what = reason if outcome is Outcome.FAILED else f"went {state.step.name.removeprefix('on_failure: ')}"
        if outcome is not Outcome.ABORTED:
            outcome, reason = Outcome.FAILED, f"{state.reason}; {what}"
        return replace(state, stage=Stage.ENDED, outcome=outcome, reason=reason, index=state.failing)
    resort = state.playbook.last_resort
    if outcome is not Outcome.FAILED or resort is None:
        return replace(state, stage=Stage.ENDED, outcome=outcome, reason=reason)
    why = _refusal(state, resort)
    if why is not None:
        return replace(state, stage=Stage.ENDED, outcome=outcome, reason=f"{reason}; {resort.name}: {why}")
    steps = (*state.playbook.steps, resort)
    playbook = replace(state.playbook, steps=steps)
    return replace(
        state,
        playbook=playbook,
        failing=state.index,
        index=len(steps) - 1,
        stage=Stage.VERIFYING,
        reason=reason,
        escalation=None,
        evidence=None,
        since=state.since if at is None else at,
    )


def granted(state: RunState, operations: tuple[str, ...]) -> RunState:
    """Have what a person granted, for the steps from the present one on; granting it twice is not twice as much."""
    added = grants.granted_keys(state.playbook.ahead(state.index), operations, state.key_of)
    return replace(state, grants={**state.grants, **added})
