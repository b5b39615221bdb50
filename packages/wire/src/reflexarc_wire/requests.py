"""Every operation a host can ask for; `since` is the protocol version that brought it, `reply` what answers it.

`feature` is what an agent advertises and can be started without; "" is always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Dict, Literal, Mapping, Optional, Tuple, Type, Union

from reflexarc_wire import replies
from reflexarc_wire.codec import from_object, named
from reflexarc_wire.errors import UNSUPPORTED, WireError
from reflexarc_wire.values import Key, Rect, Ref, Terminal, check

FEATURES = ("exec", "files", "screen", "input", "accessibility", "apps", "clipboard")


@dataclass(frozen=True)
class Request:
    """The root of all requests."""

    op: ClassVar[str]
    feature: ClassVar[str] = ""
    since: ClassVar[int] = 2
    reply: ClassVar[Type[object]] = replies.Done


@dataclass(frozen=True)
class Ping(Request):
    op = "ping"
    reply = replies.PingReply


@dataclass(frozen=True)
class Hello(Request):
    op, since = "hello", 3
    reply = replies.HelloReply
    token: Optional[str] = None
    client: Optional[str] = None


@dataclass(frozen=True)
class Subscribe(Request):
    op, feature, since = "subscribe", "accessibility", 3
    reply = replies.SubscribeReply
    events: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class Exec(Request):
    """Run a command; `command` goes to the account's shell, `argv` to no shell; one of them is given.

    `timeout` is in seconds; `window` is how many bytes may be in flight each way before credit is given. `raw` lets
    the guest send output as bytes behind their frame, several times faster than base64.
    """

    op, feature = "exec", "exec"
    command: Optional[str] = None
    argv: Optional[Tuple[str, ...]] = None
    cwd: Optional[str] = None
    env: Optional[Dict[str, str]] = None
    user: Optional[str] = None
    pty: Optional[Terminal] = None
    timeout: Optional[float] = None
    window: Optional[int] = None
    raw: Optional[bool] = None

    def __post_init__(self) -> None:
        check((self.command is None) != (self.argv is None), "exec takes either command or argv")
        check(self.argv is None or (len(self.argv) > 0 and self.argv[0] != ""), "argv is empty")
        names = self.env or {}
        check(all(name and "=" not in name for name in names), "env has a name that is empty or holds =")
        texts = (self.command, self.cwd, self.user, *(self.argv or ()), *names, *names.values())
        check(not any("\0" in text for text in texts if text), "exec can't pass on a NUL")
        check(self.timeout is None or self.timeout > 0, "timeout must be above 0")
        check(self.window is None or self.window > 0, "window must be above 0")


@dataclass(frozen=True)
class ReadFile(Request):
    """Read `size` bytes of a file at `offset`; `sha256` asks for the digest of the whole file."""

    op, feature, since = "read_file", "files", 3
    reply = replies.ReadFileReply
    path: str
    offset: Optional[int] = None
    size: Optional[int] = None
    sha256: Optional[bool] = None

    def __post_init__(self) -> None:
        _check_file(self.path, self.offset, self.size)


@dataclass(frozen=True)
class WriteFile(Request):
    """Write a chunk of a file that will have `size` bytes; the file is replaced when the last one is there.

    Chunks come in order, the first at offset 0. `mode` and `sha256` are the whole file's, named in any chunk.
    """

    op, feature, since = "write_file", "files", 3
    reply = replies.WriteFileReply
    path: str
    data: bytes
    offset: int
    size: int
    mode: Optional[int] = None
    sha256: Optional[str] = None

    def __post_init__(self) -> None:
        _check_file(self.path, self.offset, self.size)
        check(self.offset + len(self.data) <= self.size, "the chunk goes beyond the file's size")
        check(self.mode is None or 0 <= self.mode <= 0o7777, "mode must be within 0 and 4095 (07777)")


@dataclass(frozen=True)
class Screenshot(Request):
    """Take a picture of a display; `region` is in points, `scale` and `quality` (1 to 100) reduce it."""

    op, feature = "screenshot", "screen"
    reply = replies.ScreenshotReply
    display: Optional[Key] = None
    format: Literal["jpeg", "png"] = "jpeg"
    region: Optional[Rect] = None
    scale: Optional[float] = None
    quality: Optional[int] = None
    window: Optional[Key] = None


@dataclass(frozen=True)
class Displays(Request):
    op, feature, since = "displays", "screen", 3
    reply = replies.DisplaysReply


@dataclass(frozen=True)
class Cursor(Request):
    op, feature, since = "cursor", "screen", 3
    reply = replies.CursorReply


@dataclass(frozen=True)
class AxDump(Request):
    """Read a tree; `deadline` is in seconds, `since` names an earlier dump to tell the difference from."""

    op, feature = "ax_dump", "accessibility"
    reply = replies.AxDumpReply
    target: Union[Literal["frontmost"], int] = "frontmost"
    max_depth: Optional[int] = named("maxDepth")
    max_nodes: Optional[int] = named("maxNodes")
    deadline: Optional[float] = None
    root: Optional[Ref] = None
    format: Optional[Literal["tree", "outline"]] = None
    interactive_only: Optional[bool] = named("interactiveOnly")
    earlier: Optional[Union[str, int]] = named("since")


@dataclass(frozen=True)
class AxElementAt(Request):
    op, feature = "ax_element_at", "accessibility"
    reply = replies.NodeReply
    x: float
    y: float


@dataclass(frozen=True)
class AxAction(Request):
    op, feature = "ax_action", "accessibility"
    ref: Ref
    action: str


@dataclass(frozen=True)
class AxSetValue(Request):
    op, feature = "ax_set_value", "accessibility"
    ref: Ref
    value: Union[str, bool, float]


@dataclass(frozen=True)
class AxFocus(Request):
    op, feature = "ax_focus", "accessibility"
    ref: Ref


@dataclass(frozen=True)
class AxFind(Request):
    op, feature, since = "ax_find", "accessibility", 3
    reply: ClassVar[Type[object]] = replies.AxFindReply
    role: Optional[str] = None
    name: Optional[str] = None
    value: Optional[str] = None
    text: Optional[str] = None
    showing: Optional[bool] = None
    limit: Optional[int] = None


@dataclass(frozen=True)
class AxWait(AxFind):
    """Wait until such an element is there, or with `gone` until none is; `timeout` is in seconds."""

    op = "ax_wait"
    reply = replies.NodeReply
    gone: Optional[bool] = None
    timeout: Optional[float] = None


@dataclass(frozen=True)
class AxApps(Request):
    op, feature, since = "ax_apps", "accessibility", 3
    reply = replies.AxAppsReply


@dataclass(frozen=True)
class AxActions(Request):
    op, feature, since = "ax_actions", "accessibility", 3
    reply = replies.AxActionsReply
    ref: Ref


@dataclass(frozen=True)
class _AtPoint(Request):
    feature = "input"
    x: float
    y: float


Button = Literal["left", "right", "middle"]


@dataclass(frozen=True)
class Click(_AtPoint):
    op = "click"
    button: Optional[Button] = None
    count: Optional[int] = None


@dataclass(frozen=True)
class Move(_AtPoint):
    op = "move"


@dataclass(frozen=True)
class MouseDown(_AtPoint):
    op, since = "mouse_down", 3
    button: Optional[Button] = None


@dataclass(frozen=True)
class MouseUp(_AtPoint):
    op, since = "mouse_up", 3
    button: Optional[Button] = None


@dataclass(frozen=True)
class Drag(Request):
    op, feature = "drag", "input"
    from_x: float = named("fromX", required=True)
    from_y: float = named("fromY", required=True)
    to_x: float = named("toX", required=True)
    to_y: float = named("toY", required=True)


@dataclass(frozen=True)
class TypeText(Request):
    op, feature = "type", "input"
    text: str


@dataclass(frozen=True)
class KeyChord(Request):
    op, feature = "key", "input"
    chord: str


@dataclass(frozen=True)
class KeyDown(Request):
    op, feature, since = "key_down", "input", 3
    key: str


@dataclass(frozen=True)
class KeyUp(Request):
    op, feature, since = "key_up", "input", 3
    key: str


@dataclass(frozen=True)
class Scroll(Request):
    """Turn the wheel by lines; a positive dy turns it down."""

    op, feature = "scroll", "input"
    dx: float
    dy: float


@dataclass(frozen=True)
class LaunchApp(Request):
    op, feature = "launch_app", "apps"
    name: str


@dataclass(frozen=True)
class Windows(Request):
    """List the windows, or activate, move or close one."""

    op, feature, since = "windows", "apps", 3
    reply = replies.WindowsReply
    action: Literal["list", "activate", "move", "close"] = "list"
    window: Optional[Key] = None
    frame: Optional[Rect] = None


@dataclass(frozen=True)
class Clipboard(Request):
    op, feature, since = "clipboard", "clipboard", 3
    reply = replies.ClipboardReply
    action: Literal["get", "set"] = "get"
    text: Optional[str] = None


REQUESTS: Mapping[str, Type[Request]] = {
    kind.op: kind
    for kind in (
        *(Ping, Hello, Subscribe, Exec, ReadFile, WriteFile, Screenshot, Displays, Cursor),
        *(AxDump, AxElementAt, AxAction, AxSetValue, AxFocus, AxFind, AxWait, AxApps, AxActions),
        *(Click, Move, MouseDown, MouseUp, Drag, TypeText, KeyChord, KeyDown, KeyUp, Scroll),
        *(LaunchApp, Windows, Clipboard),
    )
}


def read_request(values: Mapping[str, object]) -> Request:
    """Read an object as the request it names; raises WireError, code "unsupported" where no such `op` is known."""
    op = values.get("op")
    if not isinstance(op, str):
        raise WireError("a request needs `op`, a string")
    kind = REQUESTS.get(op)
    if kind is None:
        raise WireError(f"no operation is named {op[:40]!r}", code=UNSUPPORTED)
    return from_object(kind, values)


def _check_file(path: str, offset: Optional[int], size: Optional[int]) -> None:
    check(path.startswith("/") and "\0" not in path, "path must be absolute, without a NUL")
    check((offset or 0) >= 0 and (size or 0) >= 0, "offset and size can't be negative")
