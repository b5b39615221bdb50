"""A run that was interrupted: taken up by another process, in doubt, or without its machine; pure."""

from __future__ import annotations

from dataclasses import replace

from reflexarc.playbook import stepping
from reflexarc.playbook.events import Doubted, Lost
from reflexarc.playbook.state import FreezeState, Reason, RunState, Stage, Visit


def lost(state: RunState, event: Lost) -> RunState:
    """The machine can't be reached: ask, unless that is being done; of one that is gone, ask anew."""
    if event.gone:
        state = replace(state, freeze=FreezeState.NONE, freeze_error="")
    elif state.stage is Stage.HELD:
        return state
    if state.stage in (Stage.ACTING, Stage.IN_DOUBT):
        detail = f"whether {state.step.action} happened can't be seen: {event.error}"
        return stepping.escalate(
            stepping.sent(state, event.at), Reason.INTERRUPTED, event.at, None, detail=detail
        )
    return stepping.escalate(state, Reason.CONNECTION_LOST, event.at, None, detail=event.error)


def resumed(state: RunState, at: float) -> RunState:
    """Another process takes over: its clock may be another, so waits begin again and old evidence is void."""
    state = _in_time_of(state, at)
    state = replace(state, sent_at=at, matching_since=None, alarm=None, taken_up=True)
    if state.stage is Stage.HELD:
        return state
    state = replace(state, since=at, evidence=None)
    if state.stage is Stage.ACTING:
        spec = state.step.spec
        sends = spec is not None and spec.sends_input
        return replace(state, stage=Stage.IN_DOUBT if sends else Stage.FIRING)
    if state.stage is Stage.FIRING and state.step.authorisation is not None:
        return replace(state, stage=Stage.VERIFYING)
    return state


def _in_time_of(state: RunState, at: float) -> RunState:
    """The state as if its last moment were now: how long a phase showed stays true on another boot's clock."""
    held = state.escalation
    moments = [visit.at for visit in state.history[-1:]] + ([held.at] if held is not None else [])
    shift = at - max(moments, default=at)
    if held is not None:
        held = replace(held, at=held.at + shift, history=_shifted(held.history, shift))
    return replace(state, history=_shifted(state.history, shift), escalation=held)


def _shifted(history: tuple[Visit, ...], shift: float) -> tuple[Visit, ...]:
    return tuple(replace(visit, at=visit.at + shift) for visit in history)


def doubted(state: RunState, event: Doubted) -> RunState:
    """What is granted may have been used up by acts that the journal no longer tells of."""
    state = replace(state, grants={})
    return stepping.escalate(state, Reason.INTERRUPTED, event.at, None, detail=event.detail)
