"""From the needles that a step's conditions name to the patches that sensing looks for."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from reflexarc.playbook.conditions import NeedleIs, leaves
from reflexarc.playbook.model import Step
from reflexarc.sensing.needle import Patch, Region


def sought(step: Step) -> Mapping[str, Patch]:
    """Every picture that the conditions of a step look for, by its key."""
    named = (
        leaf for condition in step.conditions for leaf in leaves(condition) if isinstance(leaf, NeedleIs)
    )
    return {one.key: _patch(one) for one in named}


def _patch(needle: NeedleIs) -> Patch:
    region = Region(*needle.region) if needle.region else None
    return Patch(needle.name, base64.b64decode(needle.image), region, needle.threshold)
