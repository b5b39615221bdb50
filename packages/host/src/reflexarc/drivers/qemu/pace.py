"""How soon what has changed is handed on: at once after a stillness, bounded in rate where changes never end.

Pure: time is told.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
    """Spaces out what is handed on: a `burst` as it comes, then one an `interval`; all times are seconds.

    Source: the leaky bucket of ITU-T I.371.
    lull: what changed is handed on, too, once nothing more has changed for so long: whatever moved has stopped.
    """

    interval: float
    burst: int
    lull: float
    _next: float = float("-inf")

    def delay(self, now: float) -> float:
        """How long to wait for the next change before handing on what changed at `now`; 0 within a burst."""
        return min(self.lull, max(0.0, self._next - now))

    def passed(self, now: float) -> None:
        """Something was handed on at `now`."""
        self._next = max(self._next, now - self.burst * self.interval) + self.interval
