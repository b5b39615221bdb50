"""The values that requests and replies are made of; points count from the top left of the primary display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple, Union

from reflexarc_wire.errors import WireError

Ref = Union[str, int]
Key = Union[int, str]


def check(holds: bool, problem: str) -> None:
    """Raise WireError with the problem unless it holds."""
    if not holds:
        raise WireError(problem)


@dataclass(frozen=True)
class Rect:
    """A rectangle of screen points."""

    x: float
    y: float
    w: float
    h: float


@dataclass(frozen=True)
class Display:
    """A display: its place in points, `scale` pixels a point."""

    id: Key
    x: float
    y: float
    w: float
    h: float
    scale: float
    primary: bool


@dataclass(frozen=True)
class Node:
    """An element of the accessibility tree; `native` is its role's own name where `role` was mapped.

    `path` is there in search results only: the names of its ancestors, outermost first. `changed` is there in
    differences only, on what is new or says something else.
    """

    ref: Ref
    role: str
    subrole: Optional[str] = None
    title: Optional[str] = None
    value: Optional[object] = None
    enabled: Optional[bool] = None
    focused: Optional[bool] = None
    frame: Optional[Rect] = None
    actions: Tuple[str, ...] = ()
    children: Tuple[Node, ...] = ()
    native: Optional[str] = None
    path: Optional[Tuple[str, ...]] = None
    changed: Optional[bool] = None


@dataclass(frozen=True)
class App:
    """A running application that offers an accessibility tree."""

    name: str
    pid: int
    frontmost: Optional[bool] = None


@dataclass(frozen=True)
class Window:
    """A top-level window."""

    id: Key
    title: str
    pid: Optional[int] = None
    frame: Optional[Rect] = None
    active: Optional[bool] = None


@dataclass(frozen=True)
class Readiness:
    """Whether a feature can be used now; if not, `reason` says why and `grant` what to do about it."""

    ready: bool
    reason: Optional[str] = None
    grant: Optional[str] = None


@dataclass(frozen=True)
class Terminal:
    """The size of a pseudo-terminal in character cells."""

    cols: int
    rows: int

    def __post_init__(self) -> None:
        check(0 < self.cols < 1 << 16 and 0 < self.rows < 1 << 16, "cols and rows must be within 1 and 65535")


@dataclass(frozen=True)
class AxEvent:
    """Something changed in the accessibility tree (sent after `subscribe`)."""

    kind: str
    ref: Optional[Ref] = None


@dataclass(frozen=True)
class DisplayChanged:
    """Displays were added, removed or resized (sent after `subscribe`)."""


Event = Union[AxEvent, DisplayChanged]
EVENTS = {"ax": AxEvent, "display_changed": DisplayChanged}
