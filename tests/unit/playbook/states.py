"""States of a run, and what an engine is told, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reflexarc.observation import Observation, Phase, ScreenText
from reflexarc.playbook import engine
from reflexarc.playbook.events import (
    Acted,
    Granted,
    Intended,
    Observed,
    Started,
    Verified,
)
from reflexarc.playbook.state import RunState

PHASES = (
    Phase("power_off"),
    Phase("post_screen", passing=True),
    Phase("booting", passing=True, usual_max=600),
    Phase("grub_menu", usual_max=60),
    Phase("grub_edit"),
    Phase("login_prompt"),
    Phase("shell_prompt"),
    Phase("installer_welcome"),
    Phase("installer_language", parent="installer_welcome"),
    Phase("crash_screen", alarm=True),
    Phase("unknown"),
)


def start(*steps: Mapping[str, object], **top: object) -> RunState:
    playbook = {"name": "test", "steps": [{"name": f"step {i}", **s} for i, s in enumerate(steps)], **top}
    return engine.start(Started(0.0, "run", "lab1", playbook, PHASES))


def said(text: str, at: float, *, end: int | None = None) -> Observation:
    return replace(
        seen("unknown", at, rung="none"), serial=text, serial_end=len(text) if end is None else end
    )


def seen(
    phase: str,
    at: float,
    *,
    changed_at: float | None = None,
    confidence: float = 1.0,
    complete: bool = True,
    rung: str = "text",
    text: str = "",
    guess: str | None = None,
) -> Observation:
    return Observation(
        phase,
        confidence,
        rung,
        at,
        at if changed_at is None else changed_at,
        origin=rung,
        complete=complete,
        screen=ScreenText(tuple(text.splitlines())),
        guess=guess,
    )


def observe(state: RunState, phase: str, at: float, **more: object) -> RunState:
    return engine.advance(state, Observed(at, seen(phase, at, **more)))  # type: ignore[arg-type]


PRESS = {"action": "press_key", "args": {"key": "enter"}}

RESET = {"action": "reset", "destructive": True}


def after_reset() -> RunState:
    """A panic was answered with a reset; the step after it waits."""
    state = start(
        {"wait_for": "crash_screen", **RESET},
        {"wait_for": "grub_menu"},
        authorize={"destructive": True, "ops": ["power.reset"]},
    )
    state = engine.advance(state, Granted(0.5, ("power.reset",), "somebody"))
    state = observe(state, "crash_screen", 1.0)
    state = engine.advance(state, Verified(1.1, seen("crash_screen", 1.05)))
    return engine.advance(engine.advance(state, Intended(1.2)), Acted(1.3, "delivered"))
