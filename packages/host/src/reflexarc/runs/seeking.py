"""From the conditions of a step to what sensing looks for: pictures, and elements of the guest's tree."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress

from reflexarc.errors import PlaybookError
from reflexarc.machine.accessibility import Selector
from reflexarc.playbook.conditions import Condition, ElementIs, NeedleIs, element_key, leaves
from reflexarc.playbook.model import Step
from reflexarc.playbook.state import RunState
from reflexarc.sensing.needle import Patch, Region
from reflexarc.sensing.watcher import Watcher


def seek(watcher: Watcher, state: RunState) -> None:
    """Have what the present step's conditions speak of looked for from now on."""
    watcher.seek(sought(state.step), elements_sought(state))


def sought(step: Step) -> Mapping[str, Patch]:
    """Every picture that the conditions of a step look for, by its key."""
    named = (leaf for leaf in _leaves(step) if isinstance(leaf, NeedleIs))
    return {one.key: _patch(one) for one in named}


def elements_sought(state: RunState) -> Mapping[str, Selector]:
    """Every element that the conditions of the present step look for, by its key."""
    found = {}
    for leaf in _leaves(state.step):
        if isinstance(leaf, ElementIs):
            with suppress(PlaybookError):  # a name without a value ends the wait when the condition is judged
                selector = leaf.rendered(state.scope)
                found[element_key(selector)] = selector
    return found


def _leaves(step: Step) -> Iterator[Condition]:
    return (leaf for condition in step.conditions for leaf in leaves(condition))


def _patch(needle: NeedleIs) -> Patch:
    region = Region(*needle.region) if needle.region else None
    return Patch(needle.name, base64.b64decode(needle.image), region, needle.threshold)
