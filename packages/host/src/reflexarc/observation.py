"""What the sensing ladder concludes about a machine, and the vocabulary of phases.

Pure values: no clock, no I/O. Times are seconds of `time.monotonic()` on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

UNKNOWN = "unknown"

CONFIDENT = 0.8
"""The confidence from which on a phase counts, where a playbook says nothing else."""

LIKENESS = 0.95
"""How alike a picture on a screen must be to one that is looked for, where nothing else is said."""

# Rungs whose word on a phase is exact; only they make `hold_for` default to zero.
EXACT_RUNGS = frozenset({"power", "signal", "boot_progress", "serial", "accessibility", "text"})

# These two phases satisfy a precondition only when their own rung said so.
OWN_RUNG_PHASES = {"power_off": "power", "no_signal": "signal"}


@dataclass(frozen=True, slots=True)
class Phase:
    """A named state of the machine, as the phase data describes it.

    `usual_max` is the default timeout of a wait for it. `passing` phases may always show while another is
    awaited; `alarm` phases end any wait that does not name them.
    """

    name: str
    parent: str | None = None
    usual_max: float = 300.0
    passing: bool = False
    alarm: bool = False


class Phases(Mapping[str, Phase]):
    """The phases that are known, by name, with their family relations."""

    def __init__(self, phases: Iterable[Phase]) -> None:
        self._phases = {phase.name: phase for phase in phases}

    def __getitem__(self, name: str) -> Phase:
        return self._phases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._phases)

    def __len__(self) -> int:
        return len(self._phases)

    def is_a(self, name: str, wanted: str) -> bool:
        """Tell whether phase `name` is `wanted` or one of its descendants."""
        current: str | None = name
        for _ in range(len(self._phases) + 1):
            if current == wanted:
                return True
            known = self._phases.get(current) if current else None
            current = known.parent if known else None
        return False


@dataclass(frozen=True)
class ScreenText:
    """The characters of a screen: one string a row, trailing blanks kept off.

    `highlighted` holds (row, first column, text) for each run of cells in reverse video.
    `cursor` is (row, column) where the reader saw one. Rows and columns count from 0.
    `confidence` is the share of inked cells read exactly.
    """

    lines: tuple[str, ...]
    highlighted: tuple[tuple[int, int, str], ...] = ()
    cursor: tuple[int, int] | None = None
    columns: int = 0
    confidence: float = 1.0

    @cached_property
    def text(self) -> str:
        """All rows joined by newlines."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What came of looking for an element of the accessibility tree, by its key.

    at: when it was looked for. count: how many there are, as far as was looked. ref, role, name, value: of the first,
    texts cut to 1,000 characters; role by the guest's own name where that is known.
    """

    key: str
    at: float
    count: int = 0
    ref: str | int = ""
    role: str = ""
    name: str = ""
    value: str = ""


@dataclass(frozen=True)
class Observation:
    """What the ladder concluded from evidence captured at one moment.

    rung: the rung that decided: power, signal, serial, unchanged, text, ... ("none" for an unknown screen).
    origin: the rung whose evidence this is; differs from `rung` only for `unchanged`.
    complete: an exact rung saw the phase's complete evidence.
    at: when the evidence was captured. changed_at: when the screen last changed (cursor blink left out).
    frame: number of the frame it was read from, None where no frame was used.
    serial: the newest text of the serial console, bounded. serial_end: how many characters
    were ever received, so that a later reader can tell what is new.
    needles: each picture that was looked for, by its key, and whether it is on the screen. elements: each element that
    was looked for; none of those of which nobody could tell. disputed: the phase that another authoritative rung
    speaks for; looked for only where a reading was asked for.
    """

    phase: str
    confidence: float
    rung: str
    at: float
    changed_at: float
    origin: str = ""
    complete: bool = False
    screen: ScreenText | None = None
    serial: str = ""
    serial_end: int = 0
    frame: int | None = None
    guess: str | None = None
    needles: tuple[tuple[str, bool], ...] = ()
    elements: tuple[Sighting, ...] = ()
    disputed: str = ""

    @property
    def text(self) -> str:
        """The text of the screen, empty where none was read."""
        return self.screen.text if self.screen else ""

    @property
    def oldest(self) -> float:
        """When the oldest evidence in it was captured."""
        return min(self.at, *(sighting.at for sighting in self.elements)) if self.elements else self.at
