"""The keys of the format: the type of each value, its bounds and choices, and what it means.

The loader and the published schema both read these tables, so that they can't differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from reflexarc.machine.capabilities import Capabilities
from reflexarc.machine.policy import CLASSES, OPERATIONS
from reflexarc.observation import CONFIDENT, LIKENESS

MAX_STEPS = 2000
MAX_PLACE = 10_000
WORD = r"[A-Za-z_]\w{0,63}"

CAPABILITIES = tuple(field.name for field in fields(Capabilities))
# What authorize.ops may name.
OPERATION_NAMES = frozenset(
    {"*", *OPERATIONS, *CLASSES} | {f"{operation.split('.', 1)[0]}.*" for operation in OPERATIONS}
)


@dataclass(frozen=True)
class Key:
    """One key of a mapping: the type of its value, what it means, its bounds or choices."""

    type: str
    meaning: str
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


STEP: Mapping[str, Key] = {
    "name": Key("name", "The step's name, unique in the playbook.", required=True),
    "wait_for": Key("condition", "What must show before the step acts; a step without an action only waits."),
    "action": Key("action", "What the step does once the awaited state is there."),
    "args": Key("arguments", "The arguments of the action."),
    "destructive": Key(
        "flag", "True where the action is destructive; set on any other action, it needs authorisation too."
    ),
    "precondition": Key(
        "condition",
        "Verified on fresh evidence immediately before a destructive step fires; wait_for if left out.",
    ),
    "passing": Key("phases", "Phases that may show while the step waits."),
    "expect": Key("condition", "What must hold after the action."),
    "expect_timeout": Key(
        "number", "Seconds within which expect must hold; 10.", minimum=0.1, maximum=86_400
    ),
    "retries": Key(
        "integer",
        "How often the action is repeated, while the state before it still shows; 2. Never where it is destructive.",
        minimum=0,
        maximum=20,
    ),
    "timeout": Key(
        "number",
        "Seconds after which the wait ends; the usual maximum of the awaited phase if left out.",
        minimum=0.1,
        maximum=1e6,
    ),
    "min_confidence": Key("number", f"How sure the senses must be; {CONFIDENT:g}.", minimum=0, maximum=1),
    "hold_for": Key(
        "number",
        "Seconds for which the condition must hold; 0 on the complete evidence of an exact rung, else 0.2.",
        minimum=0,
        maximum=3600,
    ),
    "when": Key("condition", "The step is skipped where this doesn't hold."),
    "register": Key("word", "The name under which later steps find the result."),
}

DEFAULTS: Mapping[str, Key] = {name: STEP[name] for name in ("timeout", "min_confidence", "hold_for")}

AUTHORIZE: Mapping[str, Key] = {
    "destructive": Key("flag", "Must be true for ops to ask for anything."),
    "ops": Key("operations", "Operations or classes that the playbook asks for."),
}

VARIABLE: Mapping[str, Key] = {
    "default": Key("scalar", "The value where none is given."),
    "required": Key("flag", "Whether a value must be given; true where there is no default."),
    "secret": Key("flag", "A secret is never written anywhere, and has no default."),
    "description": Key("text", "What the variable is for."),
}

PLAYBOOK: Mapping[str, Key] = {
    "name": Key("name", "The playbook's name.", required=True),
    "description": Key("text", "What the playbook does."),
    "version": Key("version", "The version of the format: 1."),
    "vars": Key("variables", "Variables: a name and its value, or default, required, secret, description."),
    "requires": Key("capabilities", "Capabilities needed beyond those that the steps imply."),
    "authorize": Key("authorize", "The destructive operations that the playbook asks for."),
    "on_unknown": Key(
        "choice",
        "escalate: a settled unknown screen is asked about; wait: only the timeout ends a wait on one.",
        choices=("escalate", "wait"),
    ),
    "unknown_after": Key(
        "number",
        "Seconds for which a screen must be settled before it is asked about; 10.",
        minimum=0,
        maximum=86_400,
    ),
    "alarm": Key("phases", "Phases that end any wait at once, unless the step names them."),
    "hold": Key(
        "choice",
        "passive: the machine goes on while the run is held; freeze: it stands still, where it can.",
        choices=("passive", "freeze"),
    ),
    "on_failure": Key("on_failure", "What a run that fails does before it ends."),
    "defaults": Key("defaults", "What holds for every step that doesn't say otherwise."),
    "steps": Key("steps", "The steps, in their order.", required=True),
}

ON_FAILURE: Mapping[str, Key] = {
    "rollback": Key(
        "state", "The saved state that the machine goes back to, if that is authorised.", required=True
    )
}

INCLUDE: Mapping[str, Key] = {
    "include": Key("file", "A playbook beside this one, whose steps stand here.", required=True)
}

REGION: Mapping[str, Key] = {
    "rows": Key("span", "First and last row, from 0; negative ones from the end."),
    "columns": Key("span", "First and last column, from 0; negative ones from the end."),
}

ELEMENT: Mapping[str, Key] = {
    "role": Key("template", "Its role, by the common name (AXButton) or the guest's own (push button)."),
    "name": Key("template", "Its whole name."),
    "value": Key("template", "Its whole value, as text."),
    "text": Key("template", "A text within its name or its value."),
    "enabled": Key("flag", "Whether it can be used; either, where left out."),
    "focused": Key("flag", "Whether it has the focus; either, where left out."),
    "showing": Key("flag", "Whether only what is on the screen counts; true where left out."),
}
# Of these at least one is given.
ELEMENT_TEXTS = ("role", "name", "value", "text")

_VALUE = Key("scalar", "A text, mostly with {{ name }}, that is compared.", required=True)

# Kind of condition -> its own key and those that may stand beside it.
CONDITIONS: Mapping[str, Mapping[str, Key]] = {
    "phase": {"phase": Key("phases", "One of these phases shows.", required=True)},
    "text": {
        "text": Key("pattern", "A regular expression, found in the screen's text.", required=True),
        "highlighted": Key("flag", "Only within a run of reverse video."),
        "region": Key("region", "Only in this part of the screen."),
    },
    "needle": {
        "needle": Key(
            "name", "A PNG picture in the playbook's folder that shows on the screen.", required=True
        ),
        "image": Key("text", "The picture itself, as PNG in base64, where there is no file."),
        "region": Key("rectangle", "Where it is looked for, in pixels: x, y, width, height."),
        "threshold": Key("number", f"How alike it must be, up to 1; {LIKENESS:g}.", minimum=0.5, maximum=1),
    },
    "element": {
        "element": Key("element", "An element of the guest's accessibility tree is there.", required=True)
    },
    "serial": {
        "serial": Key(
            "pattern",
            "A regular expression, found in what the console said since the last action.",
            required=True,
        )
    },
    "changed": {
        "changed": Key("flag", "Whether the screen has changed since the last action.", required=True)
    },
    "settled": {
        "settled": Key(
            "number", "Seconds for which the screen has been still.", required=True, minimum=0, maximum=86_400
        )
    },
    "value": {
        "value": _VALUE,
        "equals": Key("scalar", "The value is this."),
        "matches": Key("pattern", "The value matches this regular expression."),
        "in": Key("scalars", "The value is one of these."),
    },
    "any": {"any": Key("conditions", "At least one of these holds.", required=True)},
    "all": {"all": Key("conditions", "All of these hold.", required=True)},
    "not": {"not": Key("condition", "This doesn't hold.", required=True)},
}
# Of these keys beside `value` exactly one is given.
COMPARISONS = ("equals", "matches", "in")
# Actions that press a key more than once; where the key is a power operation, that is authorised for one press.
REPEATING = frozenset({"press_until"})
