"""Nodes of the wire as elements, with references that hold in one conversation only."""

from __future__ import annotations

import re

from reflexarc.machine.accessibility import App, Area, Element, Found, Ref, Tree
from reflexarc_wire.replies import AxDumpReply, AxFindReply
from reflexarc_wire.values import App as WireApp
from reflexarc_wire.values import Node

_OUTLINED = re.compile(r"\[ref=([A-Za-z0-9_-]{1,40})\]")
_TEXT, _NUMBER = ".", ":"


class Marks:
    """Puts a conversation's mark before the references that were told in it, and takes it off again.

    A number that comes back in another conversation names another element; the mark tells them apart.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def told(self, ref: Ref) -> str:
        return f"{self._mark}{_NUMBER if isinstance(ref, int) else _TEXT}{ref}"

    def own(self, ref: Ref) -> Ref | None:
        """The agent's own reference, None where it is not of this conversation."""
        text = str(ref)
        kind, rest = text[len(self._mark) : len(self._mark) + 1], text[len(self._mark) + 1 :]
        if not text.startswith(self._mark):
            return None
        if kind == _NUMBER and re.fullmatch(r"-?[0-9]{1,18}", rest):
            return int(rest)
        return rest if kind == _TEXT and rest else None

    def outline(self, text: str) -> str:
        """The outline with references that can be acted on; the names in it stay the guest's words."""
        return _OUTLINED.sub(lambda found: f"[ref={self.told(found[1])}]", text)

    def tree(self, reply: AxDumpReply) -> Tree:
        return Tree(
            None if reply.tree is None else self.element(reply.tree),
            self.outline(reply.outline or ""),
            reply.complete is not False,
            reply.capped or "",
            reply.count or 0,
        )

    def found(self, reply: AxFindReply) -> Found:
        elements = tuple(map(self.element, reply.nodes))
        return Found(elements, reply.complete is not False, reply.capped or "")

    def element(self, node: Node) -> Element:
        """The element, with those below it."""
        frame = node.frame
        return Element(
            ref=self.told(node.ref),
            role=node.role,
            native=node.native or "",
            subrole=node.subrole or "",
            name=node.title or "",
            value=node.value if isinstance(node.value, (str, int, float)) else None,
            enabled=node.enabled,
            focused=node.focused,
            area=None if frame is None else Area(frame.x, frame.y, frame.w, frame.h),
            actions=node.actions,
            path=node.path or (),
            children=tuple(map(self.element, node.children)),
        )


def app(told: WireApp) -> App:
    return App(told.name, told.pid, bool(told.frontmost))
