"""What one rung of the ladder answers."""

from __future__ import annotations

from dataclasses import dataclass

from reflexarc.observation import ScreenText


@dataclass(frozen=True, slots=True)
class Answer:
    """A phase as one rung concludes it; `screen` where the rung read text."""

    phase: str
    confidence: float
    rung: str
    complete: bool = False
    screen: ScreenText | None = None
