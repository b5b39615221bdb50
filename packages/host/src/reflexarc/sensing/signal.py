"""The signal rung: the capture device says that nothing is attached to it."""

from __future__ import annotations

from reflexarc.machine.frame import Frame
from reflexarc.sensing.verdict import Answer


def read_signal(frame: Frame | None) -> Answer | None:
    """no_signal where the frame says so; it is exact, so there is no threshold."""
    return Answer("no_signal", 1.0, "signal", complete=True) if frame and not frame.signal else None
