"""Documents to playbooks: every mistake is an error with its place; YAML and JSON are one model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import cast

from reflexarc.errors import PlaybookError
from reflexarc.machine.policy import CLASSES, OPERATIONS
from reflexarc.observation import CONFIDENT, Phases
from reflexarc.playbook import document as documents
from reflexarc.playbook import needles
from reflexarc.playbook.condition_loader import ConditionLoader
from reflexarc.playbook.conditions import Condition, templates_in
from reflexarc.playbook.document import Document, Path
from reflexarc.playbook.fields import Fields, spell, unknown
from reflexarc.playbook.format import (
    AUTHORIZE,
    CAPABILITIES,
    DEFAULTS,
    MAX_STEPS,
    ON_FAILURE,
    OPERATION_NAMES,
    PLAYBOOK,
    VARIABLE,
)
from reflexarc.playbook.including import included
from reflexarc.playbook.model import Playbook, Step, Variable
from reflexarc.playbook.step_loader import load_step
from reflexarc.playbook.template import names_in


def load_file(path: FilePath, phases: Phases) -> Playbook:
    """Load a playbook from a YAML or JSON file.

    What it includes is read from its folder. Raises PlaybookError when a file can't be read or anything in it is
    wrong.
    """
    return load_document(read_file(path), phases)


def read_file(path: FilePath) -> Document:
    """Read a YAML or JSON file with what it includes, unchecked beyond its syntax; raises PlaybookError."""
    document = documents.parse(documents.read(path), str(path))
    needles.embed(document, path.parent)
    return included(document, path)


def load_text(text: str, phases: Phases, *, name: str | None = None) -> Playbook:
    """Load a playbook from YAML or JSON text; raises PlaybookError."""
    return load_document(documents.parse(text, name), phases)


def load_data(data: object, phases: Phases, *, name: str | None = None) -> Playbook:
    """Load a playbook from plain data; raises PlaybookError."""
    return load_document(documents.of_data(data, name), phases)


def load_document(document: Document, phases: Phases) -> Playbook:
    """Check a document and compile it."""
    if document.data is None:
        raise document.error((), "the playbook is empty; it needs a name and steps")
    top = Fields(document, (), document.data, PLAYBOOK, "a playbook")
    conditions = ConditionLoader(document, phases)
    given = {} if top.get("defaults") is None else top.get("defaults")
    defaults = Fields(document, ("defaults",), given, DEFAULTS, "defaults")
    if isinstance(top.get("version"), bool) or top.get("version") not in (None, 1):
        raise top.error("version", f"this reflexarc reads format version 1, not {top.get('version')!r}")
    alarm = None if top.get("alarm") is None else top.texts("alarm")
    for index, phase in enumerate(alarm or ()):
        conditions.phase_name(("alarm", index), phase)
    for index, need in enumerate(top.texts("requires")):
        if need not in CAPABILITIES:
            raise document.error(("requires", index), unknown("capability", need, CAPABILITIES))
    confidence = defaults.number("min_confidence")
    unknown_after = top.number("unknown_after")
    playbook = Playbook(
        name=top.required_text("name", "a playbook"),
        description=top.text("description") or "",
        source=cast("Mapping[str, object]", document.data),
        variables={variable.name: variable for variable in _variables(top)},
        authorize=_authorize(top),
        alarm=alarm,
        on_unknown=top.choice("on_unknown", PLAYBOOK["on_unknown"].choices),
        unknown_after=10.0 if unknown_after is None else unknown_after,
        timeout=defaults.number("timeout"),
        min_confidence=CONFIDENT if confidence is None else confidence,
        hold_for=defaults.number("hold_for"),
        hold=top.choice("hold", PLAYBOOK["hold"].choices),
        rollback=_rollback(top),
        steps=(),
    )
    steps = tuple(
        load_step(document, ("steps", index), raw, conditions)
        for index, raw in enumerate(_step_list(document, top.get("steps")))
    )
    return _with_checked_names(document, replace(playbook, steps=steps))


def load_steps(data: object, playbook: Playbook, phases: Phases) -> Playbook:
    """Load the inline steps of an `act` reply, as a playbook with the variables of the one that is held."""
    given = [] if not isinstance(data, Sequence) or isinstance(data, str) else list(data)
    if not given:
        raise PlaybookError("act needs a list of steps")
    source = {key: playbook.source[key] for key in ("vars", "defaults") if key in playbook.source}
    return load_data({"name": "act", **source, "steps": given}, phases)


def _step_list(document: Document, value: object) -> list[object]:
    if not isinstance(value, list) or not value:
        raise document.error(("steps",), f"steps is a list of at least one step, not {spell(value)}")
    if len(value) > MAX_STEPS:
        raise document.error(("steps",), f"more than {MAX_STEPS} steps")
    return value


def _variables(top: Fields) -> Iterator[Variable]:
    value = {} if top.get("vars") is None else top.get("vars")
    if not isinstance(value, Mapping):
        raise top.error("vars", f"vars is a mapping of names, not {spell(value)}")
    for name, raw in value.items():
        path: Path = ("vars", name)
        if not isinstance(raw, Mapping):
            if isinstance(raw, list):
                raise top.document.error(path, "the value of a variable is text, a number or true/false")
            yield Variable(name, default=raw, required=raw is None)
            continue
        given = Fields(top.document, path, raw, VARIABLE, "a variable")
        default, secret = given.get("default"), given.flag("secret")
        if isinstance(default, list | Mapping):
            raise given.error("default", "the value of a variable is text, a number or true/false")
        if secret and default is not None:
            raise given.error("default", "a secret has no default: it would stand in the file")
        yield Variable(
            name, default, given.flag("required", default is None), secret, given.text("description") or ""
        )


def _authorize(top: Fields) -> tuple[str, ...]:
    if top.get("authorize") is None:
        return ()
    given = Fields(top.document, ("authorize",), top.get("authorize"), AUTHORIZE, "authorize")
    ops = given.texts("ops")
    for index, name in enumerate(ops):
        if name not in OPERATION_NAMES:
            known = [*OPERATIONS, *CLASSES]
            raise top.document.error(("authorize", "ops", index), unknown("operation", name, known))
    return ops if given.flag("destructive") else ()


def _rollback(top: Fields) -> str | None:
    """The saved state that a run which fails goes back to."""
    if top.get("on_failure") is None:
        return None
    given = Fields(top.document, ("on_failure",), top.get("on_failure"), ON_FAILURE, "on_failure")
    name = given.required_text("rollback", "on_failure")
    if "{{" in name:
        raise given.error("rollback", "the saved state to go back to is written out: no value is put into it")
    return name


def _with_checked_names(document: Document, playbook: Playbook) -> Playbook:
    """Refuse double step names; declare the variables that templates use and nobody declared."""
    seen: dict[str, int] = {}
    declared = dict(playbook.variables)
    registered: set[str] = set()
    for index, step in enumerate(playbook.steps):
        path: Path = ("steps", index)
        if step.name in seen:
            raise document.error(
                (*path, "name"), f"step {seen[step.name] + 1} has the name {step.name!r} already"
            )
        seen[step.name] = index
        for template in _templates(step):
            try:
                names = names_in(template)
            except PlaybookError as error:
                raise document.error(path, error.message) from error
            for root in (name.split(".", 1)[0] for name in names):
                if root not in registered and root not in declared:
                    declared[root] = Variable(root, required=True)
        _refuse_results(document, path, step, registered)
        if step.register:
            if step.register in declared:
                raise document.error((*path, "register"), f"{step.register!r} is a variable already")
            registered.add(step.register)
        _refuse_secrets_in_conditions(document, path, step.conditions, declared)
    return replace(playbook, variables=declared)


def _templates(step: Step) -> Iterator[str]:
    yield from step.spec.templates(step.args) if step.spec else ()
    for condition in step.conditions:
        yield from templates_in(condition)


def _refuse_results(document: Document, path: Path, step: Step, registered: Collection[str]) -> None:
    """Refuse a result of an earlier step where no value of a screen or guest may get to."""
    if step.spec is None:
        return
    for template in step.spec.templates(step.args, trusted_only=True):
        for name in names_in(template):
            if name.split(".", 1)[0] in registered:
                raise document.error(
                    (*path, "args"),
                    f"{{{{ {name} }}}} came from the machine: it names no file of this host and stands in no command; "
                    "exec takes it in env or argv",
                )


def _refuse_secrets_in_conditions(
    document: Document, path: Path, conditions: Sequence[Condition], declared: Mapping[str, Variable]
) -> None:
    for template in (text for condition in conditions for text in templates_in(condition)):
        for name in names_in(template):
            if name in declared and declared[name].secret:
                raise document.error(path, f"a condition can't look at the secret {name!r}")
