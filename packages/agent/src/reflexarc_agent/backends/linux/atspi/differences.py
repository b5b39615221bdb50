"""What has changed since an earlier dump: the dumps kept of one connection, and the difference of two.

The way to what has changed is told too; unchanged subtrees are left out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Iterable, NamedTuple, Optional, Union

from reflexarc_agent.backends.linux.atspi.outline import Line

KEPT, KEPT_ELEMENTS = 8, 40_000
GONE = 200
"""How many of what is gone are named."""

Id = Union[str, int]


class Dump(NamedTuple):
    """A dump that was told: of what, its lines or its tree, and how many elements that has."""

    asked: tuple[object, ...]
    told: Union["list[Line]", "dict[str, Any]"]
    size: int


class Dumps:
    """The last dumps of one connection, by number; the oldest go first."""

    def __init__(self) -> None:
        self._last = 0
        self._kept: OrderedDict[int, Dump] = OrderedDict()

    def keep(self, dump: Dump) -> int:
        """Keep one; returns its number."""
        self._last += 1
        self._kept[self._last] = dump
        while len(self._kept) > KEPT or (
            len(self._kept) > 1 and sum(kept.size for kept in self._kept.values()) > KEPT_ELEMENTS
        ):
            self._kept.popitem(last=False)
        return self._last

    def find(self, id: Optional[Id], asked: tuple[object, ...]) -> Optional[Dump]:  # noqa: A002
        """The dump of that number, None where it isn't kept any more or was of something else."""
        number = int(id) if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 10 else id
        dump = self._kept.get(number) if isinstance(number, int) else None
        return dump if dump and dump.asked == asked else None


class Place(NamedTuple):
    """Something that was told, what it was told below, and what directly below it."""

    said: object
    above: Any
    below: list[Any]


def outline_difference(earlier: list[Line], now: list[Line]) -> tuple[list[Line], list[str]]:
    """The lines that say something else or are new, marked, with those above them; and what is gone."""
    before, after = _placed(earlier), _placed(now)
    changed = _changed(before, after)
    wanted = _with_ancestors(changed, after)
    lines = [
        line._replace(text=f"- <changed> {line.text[2:]}") if line.key in changed else line
        for line in now
        if line.key in wanted
    ]
    gone = [line for line in earlier if line.key not in after]
    return lines, [line.ref or line.text[2:] for line in gone]


def tree_difference(earlier: dict[str, Any], now: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The tree without its unchanged subtrees, what has changed or is new marked; and the refs of what is gone."""
    before, after = _nodes(earlier), _nodes(now)
    changed = _changed(before, after)
    wanted = _with_ancestors(changed, after)
    return _pruned(now, changed, wanted), [ref for ref in before if ref not in after]


def _placed(lines: list[Line]) -> dict[Any, Place]:
    found: dict[Any, Place] = {}
    above: list[Any] = []
    for line in lines:
        del above[line.depth :]
        parent = above[-1] if above else None
        found[line.key] = Place(line.text, parent, [])
        if parent in found:
            found[parent].below.append(line.key)
        above.append(line.key)
    return found


def _nodes(tree: dict[str, Any]) -> dict[Any, Place]:
    found: dict[Any, Place] = {}
    stack: list[tuple[dict[str, Any], Any]] = [(tree, None)]
    while stack:
        node, parent = stack.pop()
        below = [child["ref"] for child in node["children"]]
        said = {field: value for field, value in node.items() if field != "children"}
        found[node["ref"]] = Place(said, parent, below)
        stack.extend((child, node["ref"]) for child in node["children"])
    return found


def _changed(before: dict[Any, Place], after: dict[Any, Place]) -> set[Any]:
    """The keys of what is new, says something else, hangs below something else, or has another order below it."""
    return {key for key, place in after.items() if key not in before or _differs(before[key], place)}


def _differs(before: Place, after: Place) -> bool:
    return before[:2] != after[:2] or (before.below != after.below and _reordered(before.below, after.below))


def _reordered(before: list[Any], after: list[Any]) -> bool:
    both = set(before) & set(after)
    return [key for key in before if key in both] != [key for key in after if key in both]


def _with_ancestors(keys: Iterable[Any], places: dict[Any, Place]) -> set[Any]:
    found: set[Any] = set()
    for key in keys:
        while key is not None and key not in found:
            found.add(key)
            key = places[key].above
    return found


def _pruned(tree: dict[str, Any], changed: set[Any], wanted: set[Any]) -> dict[str, Any]:
    top = dict(tree)
    stack = [top]
    while stack:
        node = stack.pop()
        if node["ref"] in changed:
            node["changed"] = True
        node["children"] = [dict(child) for child in node["children"] if child["ref"] in wanted]
        stack.extend(node["children"])
    return top
