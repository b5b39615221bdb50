"""Whole trees told to one connection: of what hasn't changed since it was told, the nodes are told once more.

Nodes that several answers share can't be written to.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, NoReturn, Optional

from reflexarc_agent.backends.linux.atspi.application import Application
from reflexarc_agent.backends.linux.atspi.element import Element
from reflexarc_agent.backends.linux.atspi.nodes import DEPTH, Budget, node, node_bytes
from reflexarc_agent.backends.linux.atspi.refs import Refs


class ReadOnly(Dict[str, Any]):
    """A dict that refuses to be changed, as it is part of several answers; `dict(it)` can be."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a told node is shared by several answers: change a copy")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class Subtree(NamedTuple):
    """What was told of an element and those below it: to whom, and how much of a budget it takes."""

    refs: Refs
    ended: int
    node: ReadOnly
    nodes: int
    size: int
    height: int
    capped: bool


class Telling:
    """The trees of one connection.

    A mirror is read anew soon enough for a reference not to end while its node is told once more.
    """

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    def whole(self, app: Application, root: Element, budget: Budget) -> Optional[ReadOnly]:
        """An element and all below it, None where the budget has no room for the whole."""
        if budget.depth < DEPTH or len(app.elements) > budget.nodes:
            return None
        told = self._told(root, self._refs.ended, budget.depth + 1)
        if told is None or told.nodes > budget.nodes or told.size > budget.bytes:
            return None
        budget.count, budget.bytes = told.nodes, budget.bytes - told.size
        if told.capped:
            budget.capped = budget.capped or "children"
        return told.node

    def _told(self, element: Element, ended: int, levels: int) -> Optional[Subtree]:
        """An element and those below it, None where these are more levels; `ended` of the references had before."""
        kept = element.told
        if isinstance(kept, Subtree) and kept.refs is self._refs and kept.ended == ended:
            return kept if kept.height <= levels else None
        if levels < 1:
            return None
        below = []
        fields = node(element, self._refs.name)
        for child in element.children:
            told = self._told(child, ended, levels - 1)
            if told is None:
                return None
            below.append(told)
        element.told = Subtree(
            self._refs,
            ended,
            _fixed(fields, below),
            1 + sum(told.nodes for told in below),
            node_bytes(element) + sum(told.size for told in below),
            1 + max((told.height for told in below), default=0),
            element.capped or any(told.capped for told in below),
        )
        return element.told


def _fixed(fields: dict[str, Any], below: list[Subtree]) -> ReadOnly:
    """A node of these fields, of which nothing can be changed."""
    if "frame" in fields:
        fields["frame"] = ReadOnly(fields["frame"])
    fields["actions"] = tuple(fields["actions"])
    fields["children"] = tuple(told.node for told in below)
    return ReadOnly(fields)
