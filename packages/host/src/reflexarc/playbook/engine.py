"""The engine: `advance(state, event) -> state`, pure; time enters with the events.

A run's state is its journal folded by `advance`, so resuming a run is folding again. An event that leaves the
state as it was need not be kept. What has to be done next follows from the state alone: `effect(state)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from reflexarc.errors import PlaybookError
from reflexarc.machine.policy import EVIDENCE_MAX_AGE
from reflexarc.observation import UNKNOWN, Observation, Phases
from reflexarc.playbook import replying, resuming, stepping, waiting
from reflexarc.playbook.conditions import evaluate, is_evidential
from reflexarc.playbook.events import (
    Aborted,
    Acted,
    Counted,
    Doubted,
    Event,
    Freezing,
    Froze,
    Granted,
    Intended,
    Looked,
    Lost,
    Observed,
    Replied,
    Resumed,
    Shown,
    Started,
    Thawed,
    Touched,
    Verified,
)
from reflexarc.playbook.loader import load_data
from reflexarc.playbook.model import Step
from reflexarc.playbook.state import FreezeState, Outcome, Reason, RunState, Stage, Visit

VERIFY_TIMEOUT = 30.0


@dataclass(frozen=True)
class Watch:
    """Observe until something changes the state."""


@dataclass(frozen=True)
class Verify:
    """Take a reading of its own for the step's precondition."""


@dataclass(frozen=True)
class Act:
    """Write the intent, then perform the step's action."""

    step: Step


@dataclass(frozen=True)
class Look:
    """Take a reading of its own to see what became of an act in doubt."""


@dataclass(frozen=True)
class Hold:
    """Wait for a reply."""


@dataclass(frozen=True)
class Freeze:
    """Freeze the machine of the held run, once; where it can't be, the hold is passive."""


@dataclass(frozen=True)
class Thaw:
    """Let the machine go on that was frozen for a hold."""


@dataclass(frozen=True)
class Finish:
    """The run has ended."""


Effect: TypeAlias = Watch | Verify | Act | Look | Hold | Freeze | Thaw | Finish

_EFFECTS: dict[Stage, Effect] = {
    Stage.WAITING: Watch(),
    Stage.EXPECTING: Watch(),
    Stage.VERIFYING: Verify(),
    Stage.ACTING: Look(),
    Stage.IN_DOUBT: Look(),
    Stage.ENDED: Finish(),
}


def effect(state: RunState) -> Effect:
    """What has to be done next; whoever finds the stage `acting` has first to record that it resumes."""
    if state.stage is Stage.HELD:
        wants = state.playbook.hold == "freeze" and state.freeze is FreezeState.NONE
        return Freeze() if wants else Hold()
    if state.is_frozen and state.stage is not Stage.ENDED:
        return Thaw()
    return Act(state.step) if state.stage is Stage.FIRING else _EFFECTS[state.stage]


def start(event: Started) -> RunState:
    """The first state of a run."""
    phases = Phases(event.phases)
    state = RunState(
        run_id=event.run_id,
        machine=event.machine,
        playbook=load_data(event.playbook, phases),
        phases=phases,
        variables=event.variables,
        secrets=event.secrets,
        policy=event.policy,
        max_escalations=event.max_escalations,
        place=event.place,
        typed=frozenset(event.typed),
    )
    state = stepping.granted(replace(state, index=event.start_at), event.grant)
    return stepping.enter(state, event.start_at, event.at)


def fold(events: Iterable[Event]) -> RunState:
    """Add up a journal; raises ValueError when it doesn't begin with `Started`."""
    remaining = iter(events)
    first = next(remaining, None)
    if not isinstance(first, Started):
        raise ValueError("a journal begins with the start of its run")
    state = start(first)
    for event in remaining:
        state = advance(state, event)
    return state


def advance(state: RunState, event: Event) -> RunState:
    """The state after the event. Events that don't fit the stage leave it as it is."""
    if isinstance(event, Freezing | Froze | Thawed):
        return _stilled(state, event)
    if state.stage is Stage.ENDED:
        return state
    if not isinstance(event, Observed | Verified | Looked | Intended | Acted):
        return _ordered(state, event)
    try:
        return _at_work(state, event)
    except PlaybookError as error:
        # A template whose value never came, such as the result of a step that was skipped.
        return stepping.escalate(state, Reason.ACTION_FAILED, event.at, state.seen, detail=str(error))


def _at_work(state: RunState, event: Observed | Verified | Looked | Intended | Acted) -> RunState:
    match event:
        case Observed():
            return _observed(_visited(state, event.observation, event.at), event)
        case Verified():
            return _verified(_visited(state, event.observation, event.at), event)
        case Looked():
            return _looked(_visited(state, event.observation, event.at), event)
        case Intended():
            return _intended(state, event)
        case Acted():
            return _acted(state, event)


_Order: TypeAlias = (
    Granted | Lost | Resumed | Doubted | Shown | Replied | Touched | Aborted | Started | Counted
)


def _ordered(state: RunState, event: _Order) -> RunState:
    match event:
        case Granted():
            return _granted(state, event)
        case Lost():
            return resuming.lost(state, event)
        case Resumed():
            return resuming.resumed(state, event.at)
        case Doubted():
            return resuming.doubted(state, event)
        case Shown():
            return replying.shown(state, event)
        case Replied():
            return replying.replied(state, event)
        case Touched():
            return replace(state, sent_at=event.at, input_sent=True)
        case Aborted():
            return stepping.end(state, Outcome.ABORTED, event.reason)
        case Started() | Counted():
            return state


def _stilled(state: RunState, event: Freezing | Froze | Thawed) -> RunState:
    match event:
        case Freezing():
            return replace(state, freeze=FreezeState.FREEZING) if state.stage is Stage.HELD else state
        case Froze(error=error):
            stands = FreezeState.PASSIVE if error else FreezeState.FROZEN
            return replace(state, freeze=stands, freeze_error=error)
        case Thawed():
            return replace(state, freeze=FreezeState.NONE, freeze_error="")


def _granted(state: RunState, event: Granted) -> RunState:
    if not event.grant:
        return stepping.granted(state, event.operations)
    if event.grant in state.redeemed:
        return state
    keys = {key: state.grants.get(key, 0) + count for key, count in event.keys.items()}
    return replace(state, grants={**state.grants, **keys}, redeemed=state.redeemed | {event.grant})


def _observed(state: RunState, event: Observed) -> RunState:
    if state.stage not in (Stage.WAITING, Stage.EXPECTING):
        return state
    seen = event.observation
    if seen.at <= state.sent_at:
        return _out_of_time(state, event)
    if state.stage is Stage.EXPECTING:
        return _expecting(state, event)
    step = state.step
    if step.when is not None and not state.applies and not waiting.stands(state, seen, event.at):
        return state
    if step.when is not None and not state.applies:
        if not evaluate(step.when, waiting.sight(state, seen, event.at)).holds:
            return stepping.enter(state, state.index + 1, event.at)
        state = replace(state, applies=True)
        if step.wait_for is None:
            return stepping.decide(replace(state, seen=seen), event.at)
    state, matched = waiting.match(state, step.wait_for, seen, event.at)
    if matched is not None:
        return stepping.decide(replace(state, seen=seen), event.at, matched)
    return _unmatched(state, event)


def _unmatched(state: RunState, event: Observed) -> RunState:
    state, reason = waiting.judge(state, event.observation, event.at)
    if reason is not None:
        return stepping.escalate(state, reason, event.at, event.observation)
    return _out_of_time(state, event)


def _out_of_time(state: RunState, event: Observed) -> RunState:
    if event.at < state.since + waiting.timeout(state):
        return state
    if state.stage is Stage.EXPECTING:
        return _expectation_over(state, event)
    return stepping.escalate(state, Reason.TIMEOUT, event.at, event.observation)


def _expecting(state: RunState, event: Observed) -> RunState:
    state, matched = waiting.match(state, state.step.expect, event.observation, event.at)
    if matched is not None:
        acted = state.acted and not waiting.has_changed(state, event.observation)
        state = replace(state, seen=event.observation, acted=acted)
        return stepping.enter(state, state.index + 1, event.at)
    state, reason = waiting.alarmed(state, event.observation, event.at)
    if reason is not None:
        return stepping.escalate(state, reason, event.at, event.observation)
    return _out_of_time(state, event)


def _expectation_over(state: RunState, event: Observed) -> RunState:
    """The expectation did not come true: once more while the state before is still there, else ask."""
    step, seen = state.step, event.observation
    if step.action == "wait":
        return stepping.enter(state, state.index + 1, event.at)
    repeatable = step.authorisation is None and state.attempts < step.retries and seen.at > state.sent_at
    if repeatable and _is_as_before(state, seen, event.at):
        return replace(state, stage=Stage.FIRING, since=event.at, attempts=state.attempts + 1)
    held = (
        "what it expects held before the act already, and nothing has changed since"
        if state.must_change
        else ""
    )
    return stepping.escalate(state, Reason.EXPECTATION_FAILED, event.at, seen, detail=held)


def _is_as_before(state: RunState, seen: Observation, at: float) -> bool:
    """Tell whether the state in which the action was sent is still on the screen.

    It is where the machine shows the phase and all that the step had awaited; where that says nothing of the
    machine, where the screen has not changed since.
    """
    step = state.step
    if not is_evidential(step.wait_for):
        return seen.phase != UNKNOWN and not waiting.has_changed(state, seen)
    assert step.wait_for is not None
    same = state.seen is not None and seen.phase == state.seen.phase
    return same and evaluate(step.wait_for, waiting.sight(state, seen, at, since=float("-inf"))).holds


def _verified(state: RunState, event: Verified) -> RunState:
    seen, fresh = event.observation, _is_fresh(state, event)
    if state.stage is Stage.ACTING and state.step.authorisation is not None:
        # The last look, after the intent was written: where it still holds, nothing is new.
        if fresh and _precondition_holds(state, event):
            return state
        return _mismatched(_given_back(state), event, "what it was decided on has changed; nothing was sent")
    if state.stage is not Stage.VERIFYING:
        return state
    if not fresh and event.at - state.since < VERIFY_TIMEOUT:
        return state
    if not fresh:
        return _mismatched(state, event, f"no fresh reading could be had within {VERIFY_TIMEOUT:g} s")
    if not _precondition_holds(state, event):
        return _mismatched(state, event, _why_not(state, seen))
    return replace(state, stage=Stage.FIRING, evidence=seen, since=event.at)


def _is_fresh(state: RunState, event: Verified) -> bool:
    oldest = event.observation.oldest
    return oldest >= state.since and event.at - oldest <= EVIDENCE_MAX_AGE


def _precondition_holds(state: RunState, event: Verified) -> bool:
    if state.failing is not None:
        return True
    seen, condition = event.observation, state.step.must_hold
    if seen.disputed:
        return False
    if condition is None:
        alarm = any(waiting.is_alarm(state, phase) for phase in (seen.phase, seen.guess) if phase)
        return not state.input_sent and not alarm
    verdict = evaluate(condition, waiting.sight(state, seen, event.at, strict=True))
    return verdict.holds and verdict.evidential


def _why_not(state: RunState, seen: Observation) -> str:
    """Why a precondition doesn't hold, in words."""
    if seen.disputed:
        return f"the machine shows {seen.phase}, and another of its signals says {seen.disputed}"
    if state.step.must_hold is None:
        return "a step without precondition fires only before any input was sent, with no alarm showing"
    return "the precondition does not hold on fresh evidence"


def _mismatched(state: RunState, event: Verified, detail: str) -> RunState:
    return stepping.escalate(state, Reason.PRECONDITION_MISMATCH, event.at, event.observation, detail=detail)


def _given_back(state: RunState) -> RunState:
    """The grant of an act that was not sent can be used again."""
    key = state.key_of(state.step)
    return replace(state, grants={**state.grants, key: state.grants.get(key, 0) + 1})


def _intended(state: RunState, event: Intended) -> RunState:
    if state.stage is not Stage.FIRING:
        return state
    if state.step.spec is not None and state.step.spec.sends_input:
        state = replace(state, serial_mark=max(state.serial_mark, event.serial_end))
    if state.step.authorisation is None:
        return replace(state, stage=Stage.ACTING, since=event.at)
    if state.evidence is None or event.at - state.evidence.oldest > EVIDENCE_MAX_AGE:
        return replace(state, stage=Stage.VERIFYING, evidence=None, since=event.at)
    key = state.key_of(state.step)
    if state.grants.get(key, 0) < 1:
        return stepping.escalate(state, Reason.NEEDS_AUTHORIZATION, event.at, state.seen)
    left = {**state.grants, key: state.grants.get(key, 0) - 1}
    return replace(state, stage=Stage.ACTING, since=event.at, grants=left)


def _acted(state: RunState, event: Acted) -> RunState:
    if state.stage is not Stage.ACTING:
        return state
    if event.fatal:
        return stepping.end(state, Outcome.FAILED, event.error, event.at)
    if event.sent:
        state = stepping.sent(state, event.at if event.pressed_at is None else event.pressed_at)
    if event.delivery == "failed":
        return stepping.escalate(state, Reason.ACTION_FAILED, event.at, state.seen, detail=event.error)
    if event.delivery == "unknown":
        return _unknown_delivery(state, event)
    if state.step.register:
        state = stepping.registering(state, {**state.found, **event.result})
    return stepping.after_act(state, event.at)


def _unknown_delivery(state: RunState, event: Acted) -> RunState:
    """Delivery unknown is never repeated: `expect` decides; without one, what is destructive or has no result asks."""
    if state.step.expect is not None:
        return stepping.after_act(replace(state, attempts=state.step.retries), event.at)
    without_result = state.step.spec is not None and state.step.spec.is_told_by_result
    if state.step.authorisation is not None or without_result:
        return stepping.escalate(state, Reason.CONNECTION_LOST, event.at, state.seen, detail=event.error)
    warning = f"{state.step.name}: it is unknown whether this was delivered ({event.error})"
    return stepping.enter(replace(state, warnings=(*state.warnings, warning)), state.index + 1, event.at)


def _looked(state: RunState, event: Looked) -> RunState:
    """An act in doubt: go on where its effect is seen, else ask; never fire it again."""
    if state.stage is not Stage.IN_DOUBT:
        return state
    step, seen = state.step, event.observation
    # Two screens that read differently may be one that was being drawn: no proof that a destructive act happened.
    proof = step.authorisation is None or _has_left(state.seen, seen)
    state = replace(stepping.sent(state, event.at), taken_up=proof)
    if step.expect is not None:
        return stepping.after_act(replace(state, attempts=step.retries), event.at)
    is_off = seen.phase == "power_off" and seen.origin == "power"
    shows_effect = {"power_on": not is_off, "hard_off": is_off, "shutdown": is_off}
    if event.effect or shows_effect.get(step.action or "", False):
        return stepping.enter(state, state.index + 1, event.at)
    detail = f"the process ended while {step.action} was under way; whether it happened can't be seen"
    return stepping.escalate(state, Reason.INTERRUPTED, event.at, seen, detail=detail)


def _has_left(before: Observation | None, seen: Observation) -> bool:
    """Tell whether the machine has gone from one known phase to another; neither may be half drawn."""
    if before is None or not (before.complete and seen.complete):
        return False
    return UNKNOWN not in (before.phase, seen.phase) and before.phase != seen.phase


def _visited(state: RunState, seen: Observation, at: float) -> RunState:
    if state.lingering not in (None, seen.phase) and seen.phase != UNKNOWN and seen.at > state.sent_at:
        state = replace(state, lingering=None)
    if seen.phase == state.phase:
        return state
    return replace(state, history=(*state.history, Visit(seen.phase, at, seen.origin or seen.rung))[-200:])
