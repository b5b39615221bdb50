"""Observations and runs for tests of the engine."""

from __future__ import annotations

from collections.abc import Mapping

from reflexarc.observation import Observation, Phase, ScreenText
from reflexarc.playbook import engine
from reflexarc.playbook.events import Observed, Started, Verified
from reflexarc.playbook.state import RunState

PHASES = (
    Phase("power_off"),
    Phase("booting", passing=True, usual_max=600),
    Phase("grub_menu", usual_max=60),
    Phase("login_prompt"),
    Phase("installer_welcome"),
    Phase("installer_language", parent="installer_welcome"),
    Phase("installer_keyboard", parent="installer_welcome"),
    Phase("installer_progress", passing=True, usual_max=3600),
    Phase("installer_complete", usual_max=7200),
    Phase("crash_screen", alarm=True),
    Phase("unknown"),
)


def start(*steps: Mapping[str, object], start_at: int = 0, **top: object) -> RunState:
    playbook = {"name": "test", "steps": [{"name": f"step {i}", **s} for i, s in enumerate(steps)], **top}
    return engine.start(Started(0.0, "run", "lab1", playbook, PHASES, start_at=start_at))


def seen(
    phase: str, at: float, *, changed_at: float | None = None, text: str = "", rung: str = "text"
) -> Observation:
    return Observation(
        phase, 1.0, rung, at, at if changed_at is None else changed_at, origin=rung, complete=True,
        screen=ScreenText(tuple(text.splitlines())),
    )  # fmt: skip


def observe(state: RunState, phase: str, at: float, **more: object) -> RunState:
    return engine.advance(state, Observed(at, seen(phase, at, **more)))  # type: ignore[arg-type]


def verify(state: RunState, phase: str, at: float, **more: object) -> RunState:
    return engine.advance(state, Verified(at, seen(phase, at, **more)))  # type: ignore[arg-type]
