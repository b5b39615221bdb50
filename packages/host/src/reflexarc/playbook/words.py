"""The words for a run's life, which lists need without the rest: stages, reasons, outcomes, kinds of reply."""

from __future__ import annotations

from enum import StrEnum

KINDS = ("resume", "amend", "act", "teach", "abort")


class Stage(StrEnum):
    """Where in its step a run is."""

    WAITING = "waiting"
    VERIFYING = "verifying"
    FIRING = "firing"
    ACTING = "acting"
    IN_DOUBT = "in_doubt"
    EXPECTING = "expecting"
    HELD = "held"
    ENDED = "ended"


class Reason(StrEnum):
    """Why a run is held."""

    UNKNOWN_PHASE = "unknown_phase"
    LOW_CONFIDENCE = "low_confidence"
    PRECONDITION_MISMATCH = "precondition_mismatch"
    TIMEOUT = "timeout"
    NEEDS_AUTHORIZATION = "needs_authorization"
    OFF_SCRIPT = "off_script"
    EXPECTATION_FAILED = "expectation_failed"
    ACTION_FAILED = "action_failed"
    CONNECTION_LOST = "connection_lost"
    INTERRUPTED = "interrupted"


class FreezeState(StrEnum):
    """Whether the machine of a held run was frozen for the hold. passive: it goes on, for a reason of its own."""

    NONE = ""
    FREEZING = "freezing"
    FROZEN = "frozen"
    PASSIVE = "passive"


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
