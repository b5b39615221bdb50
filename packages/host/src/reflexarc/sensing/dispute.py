"""Where two authoritative rungs disagree: what one says against the phase that another concluded."""

from __future__ import annotations

from reflexarc.observation import Observation, Phases
from reflexarc.sensing.verdict import Answer

# Two terminals of one running system may each show their own.
_TERMINALS = ("login_prompt", "shell_prompt", "graphical_login", "screen_locked", "desktop", "os_running")


def against(seen: Observation, other: Answer | None, phases: Phases) -> str:
    """The phase of the other rung's answer where it contradicts what was concluded, else nothing.

    What may always pass, such as a line of a boot log or an empty screen, contradicts nothing.
    """
    if other is None or other.rung == seen.origin:
        return ""
    known = phases.get(other.phase)
    passes = known is not None and known.passing
    same = phases.is_a(seen.phase, other.phase) or phases.is_a(other.phase, seen.phase)
    terminals = all(any(phases.is_a(p, one) for one in _TERMINALS) for p in (seen.phase, other.phase))
    return "" if passes or same or terminals else other.phase
