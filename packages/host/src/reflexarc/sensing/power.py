"""The power rung: a machine that is off shows nothing else."""

from __future__ import annotations

from reflexarc.machine.capabilities import PowerState
from reflexarc.sensing.verdict import Answer


def read_power(state: PowerState | None) -> Answer | None:
    """power_off where the device says so; it is exact, so there is no threshold."""
    return Answer("power_off", 1.0, "power", complete=True) if state is PowerState.OFF else None
