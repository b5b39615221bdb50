"""Runs as JSON: the outcome, and the escalation in the shape that callers rely on."""

from __future__ import annotations

from reflexarc.playbook.state import Escalation, FreezeState, RunState, Stage
from reflexarc.playbook.words import KINDS
from reflexarc.runs.codec import plain
from reflexarc.runs.journal import Record
from reflexarc.runs.telemetry import measure

HOLD_LIMITS = (
    "boot menus count down",
    "firmware and installers go on by themselves",
    "watchdogs may reset the machine",
)
FREEZE_LIMITS = (
    "peers on the network time out",
    "its clock stands still",
    "it takes no input; a reply thaws it",
)


def outcome_name(state: RunState, *, owned: bool) -> str:
    """succeeded, failed, aborted, held; else running or, where no process drives the run, interrupted."""
    if state.outcome is not None:
        return str(state.outcome)
    if state.stage is Stage.HELD:
        return "held"
    return "running" if owned else "interrupted"


def describe_escalation(state: RunState, held: Escalation) -> dict[str, object]:
    """The escalation of a held run; texts and frame are untrusted data from the machine."""
    ends = [*(visit.at for visit in held.history[1:]), held.at]
    history = [
        {"phase": visit.phase, "seconds": round(max(0.0, end - visit.at), 3)}
        for visit, end in zip(held.history, ends, strict=False)
    ]
    frame = held.frame
    return {
        "run_id": state.run_id,
        "escalation_id": held.id,
        "playbook": state.playbook.name,
        "machine": state.machine,
        "step_index": held.step_index,
        "step_name": held.step_name,
        "reason": str(held.reason),
        "detail": held.detail,
        "expected": list(held.expected),
        "observed_phase": held.observed_phase,
        "confidence": held.confidence,
        "rung": held.rung,
        "text": held.text,
        "outline": held.outline or None,
        "frame": None
        if frame is None
        else {"ref": frame.ref, "mime_type": "image/png", "width": frame.width, "height": frame.height},
        "history": history,
        "registered": plain(state.registered),
        "hold": _hold(state),
        "replies": list(KINDS),
    }


def _hold(state: RunState) -> dict[str, object]:
    """What is done with the machine while the run is held, and what that doesn't hold up."""
    if state.is_frozen:
        sure = {} if state.freeze is FreezeState.FROZEN else {"uncertain": True}
        return {"kind": "freeze", **sure, "limits": list(FREEZE_LIMITS)}
    why = {"why": state.freeze_error} if state.freeze_error else {}
    return {"kind": "passive", **why, "limits": list(HOLD_LIMITS)}


def describe_run(state: RunState, record: Record, *, owned: bool) -> dict[str, object]:
    """A whole run: outcome, telemetry, what was registered, and the escalation where it is held."""
    held = state.escalation
    return {
        "run_id": state.run_id,
        "machine": state.machine,
        "playbook": state.playbook.name,
        "outcome": outcome_name(state, owned=owned),
        "reason": state.reason,
        "step_index": state.index,
        "step_name": state.step.name,
        "events": len(record.events),
        "started": record.walls[0],
        "updated": record.walls[-1],
        "registered": plain(state.registered),
        "warnings": list(state.warnings),
        "damage": record.damage,
        "telemetry": measure(record.events, record.walls).as_dict(),
        "escalation": None if held is None else describe_escalation(state, held),
    }
