"""What a guest's accessibility tree tells, and evidence by it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflexarc.machine.accessibility import Element, Selector
from reflexarc.observation import CONFIDENT
from reflexarc.sensing.verdict import Answer

if TYPE_CHECKING:
    from reflexarc.sensing.evidence import Page
    from reflexarc.sensing.recogniser import Recognisers

MAX_NAME = 1000


@dataclass(frozen=True)
class TreeReading:
    """What was found in the tree at one moment, all of it that recognisers ask for. apps: names of applications."""

    at: float
    apps: tuple[str, ...] = ()
    found: Mapping[Selector, tuple[Element, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunningApp:
    """An application that offers a tree has such a name."""

    pattern: re.Pattern[str]

    def holds(self, page: Page) -> bool:
        apps = page.tree.apps if page.tree else ()
        return any(self.pattern.search(name[:MAX_NAME]) for name in apps)

    def __str__(self) -> str:
        return f"application {self.pattern.pattern!r}"


@dataclass(frozen=True)
class ShownElement:
    """An element is there; app: within an application of such a name."""

    selector: Selector
    app: re.Pattern[str] | None = None

    def holds(self, page: Page) -> bool:
        found = page.tree.found.get(self.selector, ()) if page.tree else ()
        return any(self.app is None or self.app.search(_app_of(element)) for element in found)

    def __str__(self) -> str:
        within = f" (application {self.app.pattern!r})" if self.app else ""
        return f"element {self.selector}{within}"


def _app_of(element: Element) -> str:
    return element.path[0][:MAX_NAME] if element.path else ""


def selectors_in(evidence: object) -> Iterator[Selector]:
    """The selectors of the elements that a piece of evidence speaks of."""
    if isinstance(evidence, ShownElement):
        yield evidence.selector
    for part in (*getattr(evidence, "parts", ()), *filter(None, [getattr(evidence, "part", None)])):
        yield from selectors_in(part)


def read_tree(recognisers: Recognisers, tree: TreeReading | None) -> Answer | None:
    """The phase that the tree speaks for, at or above the rung's threshold."""
    found = recognisers.of_tree(tree) if tree is not None else None
    if found is None or found.confidence < CONFIDENT:
        return None
    return found
