"""What a reply does to a held run: it amends, acts, teaches, goes on or aborts; pure."""

from __future__ import annotations

from dataclasses import replace

from reflexarc.observation import Phase, Phases
from reflexarc.playbook import stepping
from reflexarc.playbook.events import Lesson, Replied, Shown
from reflexarc.playbook.loader import load_data, load_steps
from reflexarc.playbook.state import FreezeState, Outcome, RunState, Stage


def shown(state: RunState, event: Shown) -> RunState:
    """Keep what the person who is asked gets to see."""
    if state.stage is not Stage.HELD or state.escalation is None:
        return state
    asked = replace(
        state.escalation,
        text=event.text[-stepping.MAX_TEXT :],
        frame=event.frame,
        outline=event.outline[: stepping.MAX_TEXT],
    )
    return replace(state, escalation=asked)


def replied(state: RunState, event: Replied) -> RunState:
    """Go on as the reply to the present escalation says; any other changes nothing."""
    held = state.escalation
    if state.stage is not Stage.HELD or held is None or held.id != event.escalation_id:
        return state
    if event.kind == "abort":
        return stepping.end(state, Outcome.ABORTED, event.reason)
    index = state.index
    if event.kind == "amend" and event.playbook is not None:
        playbook = load_data(event.playbook, state.phases)
        state = replace(state, playbook=playbook, variables={**playbook.defaults, **state.variables})
        index = _resume_index(state, event.resume_at)
    elif event.kind == "act":
        state = _with_inline_steps(state, event)
    elif event.kind == "teach" and event.lesson is not None:
        state = _taught(state, event.lesson)
    if state.freeze is FreezeState.PASSIVE:
        state = replace(state, freeze=FreezeState.NONE, freeze_error="")
    state = replace(state, escalation=None, sent_at=max(state.sent_at, held.at), acted=False, lingering=None)
    if event.grant:
        state = stepping.granted(replace(state, index=min(index, len(state.playbook.steps) - 1)), event.grant)
    return stepping.enter(state, index, event.at)


def _taught(state: RunState, lesson: Lesson) -> RunState:
    """Keep what was taught; a phase nobody knew is one from now on."""
    phases = state.phases
    if lesson.phase not in phases:
        phases = Phases((*phases.values(), Phase(lesson.phase)))
    return replace(state, lessons=(*state.lessons, lesson), phases=phases)


def _resume_index(state: RunState, resume_at: str | int | None) -> int:
    """Index at which an amended playbook goes on: as asked, else at the held name, else at the held index."""
    steps = state.playbook.steps
    if isinstance(resume_at, int):
        return max(0, min(resume_at, len(steps)))
    wanted = resume_at if resume_at is not None else (state.escalation.step_name if state.escalation else "")
    found = state.playbook.index_of(wanted)
    return found if found is not None else min(state.index, len(steps) - 1)


def _with_inline_steps(state: RunState, event: Replied) -> RunState:
    """Put the steps of an `act` before the held step; being replied, they count as asked for."""
    inline = load_steps(list(event.steps), state.playbook, state.phases).steps
    before, after = state.playbook.steps[: state.index], state.playbook.steps[state.index :]
    asked = {step.name for step in inline if step.authorisation is not None}
    return replace(
        state,
        playbook=replace(state.playbook, steps=(*before, *inline, *after)),
        requested=state.requested | asked,
    )
