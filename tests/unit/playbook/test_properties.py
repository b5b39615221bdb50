"""Properties that hold for every run: resuming, authorisation, reloading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from reflexarc.machine.policy import EVIDENCE_MAX_AGE
from reflexarc.observation import Observation, Phase, ScreenText
from reflexarc.playbook import engine, waiting
from reflexarc.playbook.conditions import evaluate
from reflexarc.playbook.events import (
    Acted,
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
    Started,
    Thawed,
    Touched,
    Verified,
)
from reflexarc.playbook.state import Outcome, RunState, Stage
from reflexarc.runs.codec import decode, encode

NAMES = ("power_off", "booting", "grub_menu", "login_prompt", "crash_screen", "unknown")
PHASES = (
    Phase("power_off"),
    Phase("booting", passing=True),
    Phase("grub_menu"),
    Phase("login_prompt", usual_max=20),
    Phase("crash_screen", alarm=True),
    Phase("unknown"),
)
OPERATIONS = ("power.reset", "power.off", "power.shutdown", "keyboard.press", "snapshot.restore")

conditions = st.recursive(
    st.sampled_from(NAMES[:5])
    | st.just({"text": "a+"})
    | st.just({"settled": 1})
    | st.just({"changed": True}),
    lambda inner: st.builds(lambda c: {"not": c}, inner) | st.lists(inner, min_size=1, max_size=3),
    max_leaves=3,
)
plain_actions: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [
        {"action": "press_key", "args": {"key": "enter"}},
        {"action": "note", "args": {"text": "hello"}},
        {"action": "power_on"},
        {"action": "fail", "args": {"message": "no luck"}},
    ]
)
destructive_actions: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [{"action": name, "destructive": True} for name in ("reset", "hard_off", "shutdown")]
    + [{"action": "hotkey", "args": {"chord": "ctrl+alt+delete"}, "destructive": True}]
)


@st.composite
def steps(draw: st.DrawFn, index: int) -> dict[str, object]:
    step: dict[str, object] = {"name": f"step {index}", **draw(plain_actions | destructive_actions)}
    if draw(st.booleans()):
        step["wait_for"] = draw(conditions)
    if draw(st.integers(0, 3)) == 0:
        step["expect"] = draw(conditions)
    if draw(st.integers(0, 3)) == 0 and step.get("destructive"):
        step["precondition"] = draw(conditions)
    if draw(st.integers(0, 5)) == 0:
        step["when"] = draw(conditions)
    return step


@st.composite
def playbooks(draw: st.DrawFn) -> dict[str, object]:
    count = draw(st.integers(1, 4))
    return {
        "name": "any",
        "unknown_after": 2,
        "hold": draw(st.sampled_from(["passive", "freeze"])),
        **draw(st.sampled_from([{}, {}, {"on_failure": {"rollback": "clean"}}])),
        "authorize": {
            "destructive": draw(st.booleans()),
            "ops": list(draw(st.sets(st.sampled_from(OPERATIONS)))),
        },
        "steps": [draw(steps(i)) for i in range(count)],
    }


@st.composite
def observations(draw: st.DrawFn, now: float) -> Observation:
    at = now - draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0]))
    rung = draw(st.sampled_from(["text", "text", "power", "vision", "none"]))
    return Observation(
        draw(st.sampled_from(NAMES)),
        draw(st.sampled_from([1.0, 1.0, 0.5])),
        draw(st.sampled_from([rung, "unchanged"])),
        at,
        at - draw(st.sampled_from([0.0, 1.0, 5.0])),
        origin=rung,
        complete=draw(st.booleans()),
        screen=ScreenText((draw(st.sampled_from(["", "aaa", "b"])),)),
    )


@st.composite
def next_event(draw: st.DrawFn, state: RunState, now: float) -> Event:
    """Mostly what a runner would do next, now and then anything else."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(ANYTHING))(draw, state, now)
    return FITTING.get(state.stage, _observed)(draw, state, now)


def _observed(draw: st.DrawFn, state: RunState, now: float) -> Event:
    return Observed(now, draw(observations(now)))


def _verified(draw: st.DrawFn, state: RunState, now: float) -> Event:
    return Verified(now, draw(observations(now)))


def _intended(draw: st.DrawFn, state: RunState, now: float) -> Event:
    return Intended(now)


def _acted(draw: st.DrawFn, state: RunState, now: float) -> Event:
    delivery = draw(st.sampled_from(["delivered", "delivered", "failed", "unknown"]))
    return Acted(now, delivery, fatal=state.step.action == "fail")


def _stilled(draw: st.DrawFn, state: RunState, now: float) -> Event:
    events: list[Event] = [Freezing(now), Froze(now), Froze(now, "no"), Thawed(now)]
    return draw(st.sampled_from(events))


def _looked(draw: st.DrawFn, state: RunState, now: float) -> Event:
    return Looked(now, draw(observations(now)))


def _some(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.sets(st.sampled_from(OPERATIONS), max_size=2)))


def _resume(draw: st.DrawFn, state: RunState, now: float) -> Event:
    return Replied(now, state.escalations, "resume", grant=_some(draw))


def _act(draw: st.DrawFn, state: RunState, now: float) -> Event:
    inline = {"name": f"inline {now}", **draw(destructive_actions)}
    return Replied(now, state.escalations, "act", steps=(inline,), grant=_some(draw))


FITTING = {
    Stage.VERIFYING: _verified,
    Stage.FIRING: _intended,
    Stage.ACTING: _acted,
    Stage.IN_DOUBT: _looked,
    Stage.HELD: _resume,
}
ANYTHING: list[Callable[[st.DrawFn, RunState, float], Event]] = [
    lambda draw, state, now: Resumed(now),
    lambda draw, state, now: Lost(now, "gone"),
    lambda draw, state, now: Granted(now, _some(draw), "somebody"),
    lambda draw, state, now: Touched(now, "keyboard.press", "somebody"),
    _observed,
    _intended,
    _verified,
    _acted,
    _act,
    _stilled,
]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = [Started(0.0, "run", "lab1", draw(playbooks()), PHASES)]
    state = engine.fold(events)
    now = 0.0
    for _ in range(draw(st.integers(0, 25))):
        now += draw(st.sampled_from([0.01, 0.1, 0.3, 1.0, 2.5, 12.0]))
        event = draw(next_event(state, now))
        events.append(event)
        state = engine.advance(state, event)
    return events


@given(histories())
def test_any_prefix_of_a_journal_reloads_to_the_same_state(events: list[Event]) -> None:
    state = engine.fold(events[:1])
    for count in range(1, len(events) + 1):
        if count > 1:
            state = engine.advance(state, events[count - 1])
        reloaded = engine.fold([decode(*encode(event)) for event in events[:count]])
        assert reloaded == state


@given(histories())
def test_leaving_out_events_that_change_nothing_changes_nothing(events: list[Event]) -> None:
    state = engine.fold(events[:1])
    kept = events[:1]
    for event in events[1:]:
        after = engine.advance(state, event)
        if after != state:
            kept.append(event)
        state = after
    assert engine.fold(kept) == state


@given(histories())
def test_nothing_destructive_fires_without_grant_and_fresh_precondition(events: list[Event]) -> None:
    state = engine.fold(events[:1])
    given_for: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    decided, went_back = 0.0, 0
    for event in events[1:]:
        after = engine.advance(state, event)
        if isinstance(event, Verified):
            decided = event.at
        fires = state.stage is not Stage.ACTING and after.stage is Stage.ACTING
        if fires and state.step.authorisation is not None:
            key = state.key_of(state.step)
            fired[key] += 1
            assert state.grants.get(key, 0) >= 1
            evidence = state.evidence
            assert evidence is not None
            assert event.at - evidence.at <= EVIDENCE_MAX_AGE
            assert evidence.at > state.sent_at or not state.input_sent or state.step.must_hold is None
            condition = state.step.must_hold
            if condition is None:
                assert not state.input_sent or state.failing is not None
            else:
                assert evidence.origin not in ("vision", "none")
                verdict = evaluate(condition, waiting.sight(state, evidence, decided, strict=True))
                assert verdict.holds
                assert verdict.evidential
        for key, count in after.grants.items():
            given_for[key] += max(0, count - state.grants.get(key, 0))
        if state.failing is not None:
            # It goes back at most once, asks nobody, and has failed whatever comes of it.
            went_back += fires
            assert went_back <= 1
            assert after.stage is not Stage.HELD
            assert after.outcome is not Outcome.SUCCEEDED
        if after.stage not in (Stage.HELD, Stage.ENDED) and after.is_frozen:
            assert engine.effect(after) == engine.Thaw()
        state = after
    for key, count in fired.items():
        assert count <= given_for[key]


@given(histories())
def test_a_deadline_is_always_ahead(events: list[Event]) -> None:
    state = engine.fold(events[:1])
    for event in events[1:]:
        state = engine.advance(state, event)
        seen = event.observation if isinstance(event, Observed) else None
        if state.stage in (Stage.WAITING, Stage.EXPECTING):
            assert waiting.next_deadline(state, seen, event.at) > event.at
