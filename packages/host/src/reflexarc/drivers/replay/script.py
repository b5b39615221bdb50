"""What a replayed machine does: entries in time, reactions to inputs, faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from reflexarc.machine.accessibility import Element
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Pixels


class Agent(Enum):
    """How what is inside of a guest takes a request: it answers, isn't reached, or takes it and says nothing."""

    ANSWERS = "answers"
    ABSENT = "absent"
    HANGS = "hangs"


@dataclass(frozen=True, eq=False)
class Entry:
    """What happens at one moment; everything named happens at once.

    at: seconds since the beginning, of a reaction's entries since the input. frame: pixels, or an image file.
    signal: whether a source is attached to the screen. serial: text that the console says. elements: what the tree of
    the desktop holds from then on, the name of the application first in each path. agent: how the inside answers.
    """

    at: float = 0.0
    frame: Pixels | Path | None = None
    power: PowerState | None = None
    serial: str | None = None
    signal: bool | None = None
    elements: tuple[Element, ...] | None = None
    agent: Agent | None = None


@dataclass(frozen=True)
class Reaction:
    """Entries that an input releases: a key going down, or an operation (`power.on`, `console.write`).

    An operation may have its detail after a colon: `accessibility.action:push button:OK:AXPress`.

    Of several that match, an input releases the first that was not released yet; `repeat` lets one serve again.
    """

    entries: tuple[Entry, ...]
    key: str | None = None
    operation: str | None = None
    repeat: bool = False


class Fault(Enum):
    """How an operation fails.

    REJECT: the device says no. HANG: it takes the operation and nothing follows. LOSE_BEFORE and LOSE_AFTER: the
    connection is lost, without or with the effect.
    """

    REJECT = "reject"
    HANG = "hang"
    LOSE_BEFORE = "lose_before"
    LOSE_AFTER = "lose_after"


@dataclass(frozen=True)
class Ran:
    """What becomes of a command in a played guest: what it writes, then its exit status.

    status: None where its end is never told. entries: what its run releases on the machine.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    status: int | None = 0
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class ReplayGuest:
    """What answers inside of a played machine. commands: by their line, or their argv joined by blanks; others are
    not found. files: by path, at the beginning. apps: names that its desktop knows. elements: what the tree of its
    desktop holds at the beginning, None where it offers no tree. agent: how it answers at the beginning.
    """

    commands: Mapping[str, Ran] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    apps: frozenset[str] = frozenset()
    elements: tuple[Element, ...] | None = None
    agent: Agent = Agent.ANSWERS


@dataclass(frozen=True)
class ReplayScript:
    """A machine to play.

    speed: seconds played in a second; 0 plays the next entry each time somebody waits or an input arrives.
    power: the state at the beginning. guest: what answers inside, None where nothing does.
    faults: for an operation (`power.off`, `keyboard.send`, `console.write`, `screen.screenshot`), how its first,
    second, ... call fails, None where it does not; calls beyond succeed.
    """

    entries: tuple[Entry, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    power: PowerState = PowerState.ON
    speed: float = 0.0
    faults: Mapping[str, tuple[Fault | None, ...]] = field(default_factory=dict)
    guest: ReplayGuest | None = None
