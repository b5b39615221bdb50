"""What sway tells of its windows over its own socket: places, processes, which has the keyboard.

Source: sway-ipc(7).
"""

from __future__ import annotations

import json
import socket
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from reflexarc_agent.backends.linux.errors import NotOfferedError
from reflexarc_agent.backends.linux.pictures import Area
from reflexarc_agent.backends.linux.wayland.errors import WaylandError
from reflexarc_agent.backends.linux.wayland.windows import EFFECT, LISTED, TITLE, Window

MAGIC = b"i3-ipc"
_HEAD = struct.Struct("=6sII")
RUN_COMMAND, GET_TREE = 0, 4
LONGEST = 8 << 20
ANSWER = 2.0
NODES = 20_000
PAUSE = 0.02
LARGEST = 1 << 20


def socket_of(environ: Mapping[str, str], peer: Tuple[int, int, int]) -> Optional[str]:
    """Sway's socket: what the environment names, else the one of the compositor's process; None where it isn't sway."""
    named = environ.get("SWAYSOCK")
    if named and Path(named).is_socket():
        return named
    process, user, _ = peer
    path = Path(environ.get("XDG_RUNTIME_DIR", "")) / f"sway-ipc.{user}.{process}.sock"
    return str(path) if path.is_socket() else None


class Sway:
    """The windows of one sway; places are of its layout. Raises WaylandError where it doesn't answer as it should."""

    def __init__(self, path: str, sleep: Callable[[float], object] = time.sleep) -> None:
        self._path = path
        self._sleep = sleep

    def require(self) -> None:
        """Nothing: sway is there."""

    def listed(self) -> list[Window]:
        """The windows, floating ones after the tiled of their workspace."""
        return [_window(node) for node in self._nodes()]

    def place(self, pid: int, title: str) -> Optional[Area]:
        """Where the content of a process's window of a title, or its only one, is; None where that's unclear."""
        own = [node for node in self._nodes() if node.get("pid") == pid]
        found = [node for node in own if node.get("name") == title] or own
        return _window(found[0]).frame if len(found) == 1 and not _changing(found[0]) else None

    def activate(self, window: int) -> bool:
        """Bring a window to the front and give it the keyboard; returns whether it has it."""
        self._tell(window, "focus")
        return self._seen(lambda: any(w.id == window and w.active for w in self.listed()))

    def close(self, window: int) -> bool:
        """Ask a window to close; returns whether it is gone."""
        self._tell(window, "kill")
        return self._seen(lambda: all(w.id != window for w in self.listed()))

    def move(self, window: int, where: Area) -> bool:
        """Move a floating window's content, and give it the place's size; raises NotOfferedError where it is tiled."""
        sized = where.w > 0 and where.h > 0
        if self._node(window).get("type") != "floating_con":
            raise NotOfferedError(f"window {window} is tiled: sway alone places it")
        self._seen(lambda: not _changing(self._node(window)))
        node = self._node(window)
        frame, outer, title = (
            _window(node).frame,
            _rectangle(node.get("rect")),
            _rectangle(node.get("deco_rect")),
        )
        if frame is None or outer is None or title is None:
            raise WaylandError(f"sway didn't tell where window {window} is")
        # Sway arranges the window with its title bar, which it leaves out of the rectangle that it tells.
        if sized:
            w, h = where.w + outer.w - frame.w, where.h + outer.h - frame.h + title.h
            self._tell(window, f"resize set width {w} px height {h} px")
        left, top = where.x - (frame.x - outer.x), where.y - (frame.y - outer.y) - title.h
        self._tell(window, f"move absolute position {left} {top}")

        def there() -> bool:
            known = _window(self._node(window)).frame
            return known is not None and known == (
                where if sized else Area(where.x, where.y, known.w, known.h)
            )

        return self._seen(there)

    def _seen(self, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + EFFECT
        while not holds():
            if time.monotonic() > end:
                return False
            self._sleep(PAUSE)
        return True

    def _node(self, window: int) -> Dict[str, Any]:
        for node in self._nodes():
            if node["id"] == window:
                return node
        raise WaylandError(f"there is no window {window}: list them again")

    def _nodes(self) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = []
        for node in _walk(self._ask(GET_TREE)):
            if len(found) < LISTED and isinstance(node.get("pid"), int) and isinstance(node.get("id"), int):
                found.append(node)
        return found

    def _tell(self, window: int, command: str) -> None:
        self._node(window)
        answer = self._ask(RUN_COMMAND, f"[con_id={window}] {command}")
        results = answer if isinstance(answer, list) else []
        for result in results:
            if isinstance(result, dict) and not result.get("success"):
                raise WaylandError(f"sway refused to {command}: {str(result.get('error'))[:200]}")

    def _ask(self, kind: int, payload: str = "") -> Any:
        data = payload.encode()
        try:
            with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as asked:
                asked.settimeout(ANSWER)
                asked.connect(self._path)
                asked.sendall(_HEAD.pack(MAGIC, len(data), kind) + data)
                magic, length, answered = _HEAD.unpack(_exactly(asked, _HEAD.size))
                if magic != MAGIC or answered != kind or length > LONGEST:
                    raise WaylandError(f"sway broke its protocol at {self._path}")
                return json.loads(_exactly(asked, length))
        except (OSError, ValueError, RecursionError) as error:
            raise WaylandError(f"sway doesn't answer at {self._path}: {error}") from error


def _exactly(source: socket.socket, count: int) -> bytes:
    end, received = time.monotonic() + ANSWER, bytearray()
    while len(received) < count:
        if time.monotonic() > end:
            raise TimeoutError("out of time")
        data = source.recv(min(count - len(received), 1 << 16))
        if not data:
            raise ConnectionError("it closed the socket")
        received += data
    return bytes(received)


def _walk(tree: Any) -> Iterator[Dict[str, Any]]:
    """The nodes of a tree, the tiled before the floating."""
    stack, count = [tree], 0
    while stack and count < NODES:
        node = stack.pop()
        count += 1
        if not isinstance(node, dict):
            continue
        yield node
        for field in ("floating_nodes", "nodes"):
            below = node.get(field)
            stack.extend(reversed(below) if isinstance(below, list) else ())


def _rectangle(told: Any) -> Optional[Area]:
    if not isinstance(told, dict):
        return None
    edges = [told.get(edge) for edge in ("x", "y", "width", "height")]
    known = [edge for edge in edges if isinstance(edge, int) and abs(edge) < LARGEST]
    return Area(*known) if len(known) == 4 else None


def _changing(node: Dict[str, Any]) -> bool:
    """Whether a border is coming or going: the place that sway tells is neither the old nor the new one."""
    outer, inner = _rectangle(node.get("rect")), _rectangle(node.get("window_rect"))
    if outer is None or inner is None:
        return True
    bare = node.get("border") in ("none", "csd")
    return (
        (bare and (inner.x, inner.y) != (0, 0)) or inner.y + inner.h > outer.h or inner.x + inner.w > outer.w
    )


def _window(node: Dict[str, Any]) -> Window:
    outer, inner = _rectangle(node.get("rect")), _rectangle(node.get("window_rect"))
    frame = Area(outer.x + inner.x, outer.y + inner.y, inner.w, inner.h) if outer and inner else outer
    title = node.get("name")
    return Window(
        node["id"],
        title[:TITLE] if isinstance(title, str) else "",
        node["pid"],
        frame,
        node.get("focused") is True,
        node.get("visible") is True,
    )
