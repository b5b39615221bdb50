"""Waiting: when an awaited condition counts, and what else ends a wait; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reflexarc.observation import UNKNOWN, Observation, Sighting
from reflexarc.playbook.conditions import (
    Condition,
    ElementIs,
    Settled,
    Sight,
    Verdict,
    evaluate,
    leaves,
    phases_in,
)
from reflexarc.playbook.model import DEFAULT_TIMEOUT
from reflexarc.playbook.state import Reason, RunState, Stage

HOLD_FOR_INEXACT = 0.2
IDLE = 1.0
# A screen that never stands still is judged as it is after this long.
DRAWN_AFTER = 2.0

NOTHING = Observation(UNKNOWN, 0.0, "none", at=float("-inf"), changed_at=float("-inf"))


def sight(
    state: RunState, seen: Observation, now: float, *, since: float | None = None, strict: bool = False
) -> Sight:
    """What a condition of the present step may look at."""
    return Sight(
        observation=seen,
        now=now,
        since=state.sent_at if since is None else since,
        serial_mark=state.serial_mark,
        min_confidence=state.min_confidence,
        phases=state.phases,
        scope=state.scope,
        strict=strict,
    )


def match(
    state: RunState, condition: Condition | None, seen: Observation, now: float
) -> tuple[RunState, Verdict | None]:
    """Judge the awaited condition; the verdict is given once it has held for as long as it must."""
    if condition is None:
        return state, None
    verdict = evaluate(condition, sight(state, seen, now))
    if not verdict.holds or (state.must_change and not has_changed(state, seen)):
        return (replace(state, matching_since=None) if state.matching_since is not None else state), None
    began = now if state.matching_since is None else state.matching_since
    if now >= began + hold_for(state, verdict) and (verdict.complete or _is_drawn(state, seen, began, now)):
        return state, verdict
    return (replace(state, matching_since=began) if state.matching_since is None else state), None


def _is_drawn(state: RunState, seen: Observation, began: float, now: float) -> bool:
    """Tell whether evidence that isn't complete may count: a screen that still changes may be half drawn."""
    own = _own_hold_for(state)
    return own is not None or now >= min(seen.changed_at + HOLD_FOR_INEXACT, began + DRAWN_AFTER)


def has_changed(state: RunState, seen: Observation) -> bool:
    """Tell whether the screen has changed since the last act."""
    if seen.changed_at > state.sent_at:
        return True
    return state.taken_up and state.seen is not None and _shown(seen) != _shown(state.seen)


def _shown(seen: Observation) -> tuple[object, ...]:
    """What is compared of two screens; the cursor blinks."""
    screen = seen.screen
    return seen.phase, screen and screen.lines, screen and screen.highlighted


def hold_for(state: RunState, verdict: Verdict) -> float:
    """Seconds for which the condition must hold before it counts."""
    own = _own_hold_for(state)
    if own is not None:
        return own
    return 0.0 if verdict.complete else HOLD_FOR_INEXACT


def _own_hold_for(state: RunState) -> float | None:
    """What the playbook says of it; an expectation has the default."""
    if state.stage is Stage.EXPECTING:
        return None
    return state.step.hold_for if state.step.hold_for is not None else state.playbook.hold_for


def stands(state: RunState, seen: Observation, now: float) -> bool:
    """Tell whether what is seen may be judged for a `when`: complete, or there for as long as any must hold."""
    since = max(state.since, state.history[-1].at if state.history else state.since)
    return seen.complete or now >= since + HOLD_FOR_INEXACT


def timeout(state: RunState) -> float:
    """Seconds after which the present wait ends in any case."""
    step = state.step
    if state.stage is Stage.EXPECTING and step.action == "wait":
        seconds = step.args["seconds"]
        return float(seconds) if isinstance(seconds, int | float) else 0.0
    if state.stage is Stage.EXPECTING:
        return step.expect_timeout
    if step.timeout is not None:
        return step.timeout
    if state.playbook.timeout is not None:
        return state.playbook.timeout
    return max((state.phases[name].usual_max for name in phases_in(step.wait_for)), default=DEFAULT_TIMEOUT)


def judge(state: RunState, seen: Observation, now: float) -> tuple[RunState, Reason | None]:
    """What an observation that is not the awaited one means for the wait: nothing, or a reason to ask."""
    state, reason = alarmed(state, seen, now)
    if reason is not None:
        return state, reason
    settled = now >= max(seen.changed_at, state.since, state.sent_at) + state.playbook.unknown_after
    if not settled:
        return state, None
    if seen.phase != UNKNOWN and seen.confidence >= state.min_confidence:
        passes = may_pass(state, seen.phase) or _shows_elements(state, seen)
        return state, None if passes else Reason.OFF_SCRIPT
    if state.playbook.on_unknown == "wait":
        return state, None
    guessed = seen.guess is not None or seen.phase != UNKNOWN
    return state, Reason.LOW_CONFIDENCE if guessed else Reason.UNKNOWN_PHASE


def alarmed(state: RunState, seen: Observation, now: float) -> tuple[RunState, Reason | None]:
    """An alarm phase ends the wait as soon as it has held as any phase must.

    What an act was meant to end, such as the panic before a reset, is no alarm until it has been gone.
    """
    lingers = state.lingering is not None and seen.phase == state.lingering
    if seen.confidence < state.min_confidence or lingers or not is_alarm(state, seen.phase):
        return (replace(state, alarm=None) if state.alarm is not None else state), None
    began = state.alarm[1] if state.alarm is not None and state.alarm[0] == seen.phase else now
    if seen.complete or now >= began + HOLD_FOR_INEXACT:
        return state, Reason.OFF_SCRIPT
    return (state if state.alarm == (seen.phase, began) else replace(state, alarm=(seen.phase, began))), None


def is_alarm(state: RunState, phase: str) -> bool:
    """Tell whether the phase ends any wait of the present step at once."""
    step = state.step
    named = phases_in(step.wait_for) | phases_in(step.expect) | phases_in(step.precondition) | {*step.passing}
    if _is_one_of(state, phase, named):
        return False
    alarms = state.playbook.alarm
    if alarms is None:
        alarms = tuple(name for name, known in state.phases.items() if known.alarm)
    return _is_one_of(state, phase, frozenset(alarms))


def may_pass(state: RunState, phase: str) -> bool:
    """Tell whether the phase may show while the present step waits."""
    awaited = phases_in(state.step.wait_for) | phases_in(state.step.expect) | {*state.step.passing}
    earlier = (s for s in state.playbook.steps[: state.index] if s.action is None)
    allowed = awaited.union(*(phases_in(step.wait_for) for step in earlier))
    known = state.phases.get(phase)
    return (known is not None and known.passing) or _is_one_of(state, phase, allowed)


def _shows_elements(state: RunState, seen: Observation) -> bool:
    """Tell whether the phase is one that the awaited element's own tree told."""
    awaited = (*leaves(state.step.wait_for), *leaves(state.step.expect))
    return seen.origin == "accessibility" and any(isinstance(leaf, ElementIs) for leaf in awaited)


def _is_one_of(state: RunState, phase: str, names: frozenset[str]) -> bool:
    return any(state.phases.is_a(phase, name) for name in names)


def result(state: RunState, verdict: Verdict) -> Mapping[str, object]:
    """What a step that only waited registers."""
    seen = state.seen
    return {
        "phase": seen.phase if seen else UNKNOWN,
        "text": seen.text if seen else "",
        "match": verdict.match or "",
        "groups": dict(verdict.groups),
        **_found(verdict.element),
    }


def _found(element: Sighting | None) -> Mapping[str, object]:
    """What a step registers of the element it awaited."""
    if element is None:
        return {}
    return {"ref": element.ref, "role": element.role, "name": element.name, "value": element.value}


def next_deadline(state: RunState, seen: Observation | None, now: float) -> float:
    """When, at the latest, the state must be advanced again though nothing new was observed; later than now."""
    deadlines = [state.since + timeout(state)]
    if state.matching_since is not None:
        own = _own_hold_for(state)
        deadlines.append(state.matching_since + (HOLD_FOR_INEXACT if own is None else own))
        deadlines.append(state.matching_since + DRAWN_AFTER)
        if seen is not None:
            deadlines.append(seen.changed_at + HOLD_FOR_INEXACT)
    if state.alarm is not None:
        deadlines.append(state.alarm[1] + HOLD_FOR_INEXACT)
    if not state.applies and state.history:
        deadlines.append(max(state.since, state.history[-1].at) + HOLD_FOR_INEXACT)
    if seen is not None:
        awaited = state.step.expect if state.stage is Stage.EXPECTING else state.step.wait_for
        settling = [leaf.seconds for leaf in leaves(awaited) if isinstance(leaf, Settled)]
        deadlines.extend(seen.changed_at + seconds for seconds in settling)
        if state.stage is Stage.WAITING:
            deadlines.append(max(seen.changed_at, state.since, state.sent_at) + state.playbook.unknown_after)
    return min((deadline for deadline in deadlines if deadline > now), default=now + IDLE)
