"""What each operation answers, without the envelope `ok` and `id`; fields without a default are in version 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple, Union

from reflexarc_wire.codec import named
from reflexarc_wire.values import App, Display, Node, Readiness, Ref, Window


@dataclass(frozen=True)
class Failure:
    """The operation failed; `code` is one of `CODES`, absent from a version 2 agent."""

    error: str
    code: Optional[str] = None
    detail: Optional[str] = None


@dataclass(frozen=True)
class Done:
    """The operation was carried out; from version 3 on, actions say whether it was delivered.

    `delivery` is "delivered", "not_delivered" or "unknown"; what is unknown may have happened.
    """

    delivery: Optional[str] = None
    retry_safe: Optional[bool] = None


@dataclass(frozen=True)
class PingReply:
    version: int
    displays: Tuple[Display, ...] = ()
    readiness: Optional[Dict[str, Readiness]] = None
    features: Optional[Tuple[str, ...]] = None
    boot_id: Optional[str] = None


@dataclass(frozen=True)
class HelloReply:
    """`agent` is the agent's own version, `os` is "linux" or "macos"."""

    version: int
    boot_id: str
    agent: str
    os: str
    features: Tuple[str, ...]
    readiness: Dict[str, Readiness]


@dataclass(frozen=True)
class ScreenshotReply:
    """`scale` is pixels a point; `format` is absent where it is JPEG."""

    image: bytes
    width: int
    height: int
    scale: float
    format: Optional[str] = None


@dataclass(frozen=True)
class AxDumpReply:
    """A tree, or its outline; if not `complete`, `capped` names the bound that was met, `count` the nodes read.

    `dump` is what a later request may name as its `since`. Where `since` is there, only what has changed since that
    dump is told, with what is above it, and `removed` are the references of what is gone.
    """

    tree: Optional[Node] = None
    outline: Optional[str] = None
    complete: Optional[bool] = None
    capped: Optional[str] = None
    count: Optional[int] = None
    dump: Optional[int] = None
    earlier: Optional[Union[str, int]] = named("since")
    removed: Optional[Tuple[Ref, ...]] = None


@dataclass(frozen=True)
class NodeReply:
    """`node` is absent where nothing is there, or where the wait was for it to be gone."""

    node: Optional[Node] = None


@dataclass(frozen=True)
class AxFindReply:
    nodes: Tuple[Node, ...]
    complete: Optional[bool] = None
    capped: Optional[str] = None


@dataclass(frozen=True)
class AxAppsReply:
    apps: Tuple[App, ...]


@dataclass(frozen=True)
class AxActionsReply:
    actions: Tuple[str, ...]


@dataclass(frozen=True)
class WindowsReply:
    windows: Optional[Tuple[Window, ...]] = None
    delivery: Optional[str] = None
    retry_safe: Optional[bool] = None


@dataclass(frozen=True)
class ClipboardReply:
    text: Optional[str] = None


@dataclass(frozen=True)
class DisplaysReply:
    displays: Tuple[Display, ...]


@dataclass(frozen=True)
class CursorReply:
    x: float
    y: float


@dataclass(frozen=True)
class ReadFileReply:
    """`size` and `mode` are the whole file's; `sha256`, where it was asked for, too."""

    data: bytes
    offset: int
    size: int
    mode: int
    eof: bool
    sha256: Optional[str] = None


@dataclass(frozen=True)
class WriteFileReply:
    """`offset` is where the next chunk goes; once `done`, the file is in place with this `sha256`."""

    offset: int
    done: bool
    sha256: Optional[str] = None


@dataclass(frozen=True)
class SubscribeReply:
    events: Tuple[str, ...]
