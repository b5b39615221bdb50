"""Replies to a held run: checked like playbooks before they are journalled; a bad one leaves the run held."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from reflexarc.errors import PlaybookError, RunError, SafetyError
from reflexarc.machine.policy import CLASSES, OPERATIONS, Policy, covers
from reflexarc.playbook.document import MAX_CHARACTERS
from reflexarc.playbook.events import Granted, Lesson, Replied
from reflexarc.playbook.fields import unknown
from reflexarc.playbook.loader import load_data, load_steps
from reflexarc.playbook.model import Playbook, Step
from reflexarc.playbook.state import RunState
from reflexarc.playbook.words import KINDS
from reflexarc.runs.granting import GrantBook
from reflexarc.runs.ledger import Ledger, require_held
from reflexarc.runs.teaching import lesson_of


@dataclass(frozen=True)
class Reply:
    """What a person or an agent answers.

    playbook and resume_at belong to amend, which goes on with the same playbook where none is given; steps to act,
    reason to abort; phase, text (a regular expression), needle (a PNG file, as bytes or in base64) and element to
    teach. grant: operations that the person who replies authorises.
    """

    kind: str
    playbook: Mapping[str, object] | None = None
    resume_at: str | int | None = None
    steps: Sequence[Mapping[str, object]] = ()
    grant: Sequence[str] = ()
    reason: str = ""
    phase: str = ""
    text: str = ""
    needle: str | bytes = ""
    element: Mapping[str, object] | None = None


def record_reply(
    ledger: Ledger,
    reply: Reply,
    *,
    escalation_id: int | None = None,
    by: str = "",
    book: GrantBook | None = None,
    agent: Sequence[str] | None = None,
) -> None:
    """Check a reply and journal it, with what a person granted to the run in advance.

    by: who answers; `agent`, where no person does. book: where such grants are. agent: what the policy allows to
    agents, where it is one that replies.

    Raises RunError for a stale one, PlaybookError for one that is wrong, SafetyError for one that an agent may not
    give; the run stays held then.
    """
    ledger.catch_up()
    state = ledger.state
    held = require_held(state, escalation_id)
    _check(state, reply)
    lesson = _lesson(state, reply, by)
    if agent is not None:
        _check_agent(state, reply, agent)
    if book is not None and reply.kind != "abort":
        _redeem(ledger, book)
    event = Replied(
        at=time.monotonic(),
        escalation_id=held,
        kind=reply.kind,
        playbook=reply.playbook,
        resume_at=reply.resume_at,
        steps=tuple(reply.steps),
        grant=tuple(reply.grant),
        reason=reply.reason,
        by=by,
        lesson=lesson,
    )
    if not ledger.record(event):
        raise RunError(f"run {state.run_id}: the reply changes nothing", run_id=state.run_id)


def _redeem(ledger: Ledger, book: GrantBook) -> None:
    """Use up the grants that a person gave to this run."""
    run = ledger.state.run_id
    for grant in book.open():
        if grant.run == run and book.use_up(grant, f"run {run}"):
            ledger.record(Granted(time.monotonic(), grant.operations, grant.by, grant.id, grant.keys))


def _check_agent(state: RunState, reply: Reply, allowed: Sequence[str]) -> None:
    """Raise SafetyError where an agent grants something, or adds steps that the policy doesn't allow to agents."""
    if reply.grant:
        raise SafetyError(
            f"{state.machine}: an agent grants nothing; a person can, with `reflexarc grant {state.run_id}`",
            rule="agent_grant",
            operation=reply.grant[0],
        )
    given: tuple[Step, ...] = ()
    if reply.kind == "act":
        given = load_steps(list(reply.steps), state.playbook, state.phases).steps
    elif reply.kind == "amend" and reply.playbook is not None:
        given = load_data(reply.playbook, state.phases).steps
    for step in given:
        if step.operation is not None and step not in state.playbook.steps:
            Policy(agents=tuple(allowed)).check(step.operation, agent=True, machine=state.machine)


def _check(state: RunState, reply: Reply) -> None:
    _check_types(reply)
    if reply.kind not in KINDS:
        raise PlaybookError(unknown("reply", reply.kind[:40], KINDS))
    _check_belongs(reply)
    check_grant(reply.grant)
    if reply.kind == "amend":
        _check_amend(state, reply)
    elif reply.kind == "act":
        inline = load_steps(list(reply.steps), state.playbook, state.phases)
        taken = {step.name for step in state.playbook.steps}
        for step in inline.steps:
            if step.name in taken:
                raise PlaybookError(f"the playbook has a step named {step.name!r} already")
        _check_names(inline, state)


def _check_belongs(reply: Reply) -> None:
    """Refuse what another kind of reply carries: it would be thrown away."""
    for what, given, kind in (
        ("a playbook", reply.playbook is not None, "amend"),
        ("resume_at", reply.resume_at is not None, "amend"),
        ("steps", bool(reply.steps), "act"),
    ):
        if given and reply.kind != kind:
            raise PlaybookError(f"a reply {reply.kind} carries no {what.removeprefix('a ')}; {kind} does")


def _check_types(reply: Reply) -> None:
    """Refuse what isn't of the kind that a reply holds, and one too large to be kept."""
    if not isinstance(reply.kind, str) or not isinstance(reply.reason, str):
        raise PlaybookError("the kind of a reply is text, and so is its reason")
    if not isinstance(reply.resume_at, str | int | None) or isinstance(reply.resume_at, bool):
        raise PlaybookError("resume_at is a step's name or index")
    if not isinstance(reply.playbook, Mapping | None):
        raise PlaybookError("the playbook of an amend is a mapping")
    for what, values, kind in (("steps", reply.steps, Mapping), ("grant", reply.grant, str)):
        if not isinstance(values, list | tuple) or not all(isinstance(value, kind) for value in values):
            raise PlaybookError(
                f"{what} of a reply is a list, each of it {'a mapping' if kind is Mapping else 'text'}"
            )
    try:
        size = len(json.dumps([reply.playbook, reply.steps, reply.grant, reply.reason, reply.resume_at]))
    except (TypeError, ValueError, RecursionError) as error:
        raise PlaybookError(f"the reply is not plain data: {error}") from error
    if size > MAX_CHARACTERS:
        raise PlaybookError(f"the reply is larger than {MAX_CHARACTERS:,} characters")


def _lesson(state: RunState, reply: Reply, by: str) -> Lesson | None:
    """What a reply teaches, checked; None for another one."""
    if reply.kind == "teach" and state.escalation is not None:
        return lesson_of(
            state,
            state.escalation,
            phase=reply.phase,
            text=reply.text,
            needle=reply.needle,
            element=reply.element,
            by=by,
        )
    if reply.phase or reply.text or reply.needle or reply.element is not None:
        raise PlaybookError(f"a reply {reply.kind} teaches nothing; the kind is teach")
    return None


def _check_amend(state: RunState, reply: Reply) -> None:
    if reply.playbook is None and reply.resume_at is None:
        raise PlaybookError("amend needs a playbook, or resume_at for the step of this one to go on at")
    playbook = state.playbook if reply.playbook is None else load_data(reply.playbook, state.phases)
    if reply.playbook is not None:
        _check_names(playbook, state)
    if isinstance(reply.resume_at, str) and playbook.index_of(reply.resume_at) is None:
        names = [step.name for step in playbook.steps]
        raise PlaybookError("resume_at: " + unknown("step", reply.resume_at, names))
    if isinstance(reply.resume_at, int) and not 0 <= reply.resume_at < len(playbook.steps):
        raise PlaybookError(f"resume_at: the playbook has steps 0 to {len(playbook.steps) - 1}")


def _check_names(playbook: Playbook, state: RunState) -> None:
    """Refuse steps whose result would stand for a variable, and variables without a value."""
    for step in playbook.steps:
        if step.register in state.variables or step.register in state.secrets:
            raise PlaybookError(f"step {step.name!r}: {step.register!r} is a variable of the run already")
    given = {*state.variables, *state.registered, *state.secrets}
    missing = sorted(v.name for v in playbook.variables.values() if v.required and v.name not in given)
    if missing:
        raise PlaybookError(
            f"the run has no value for {', '.join(missing)}: give it a default in the vars of the reply's playbook"
        )


def check_variables(playbook: Playbook, given: Collection[str]) -> None:
    """Raise PlaybookError where a required variable has no value."""
    missing = sorted(v.name for v in playbook.variables.values() if v.required and v.name not in given)
    if missing:
        raise PlaybookError(
            f"the playbook {playbook.name!r} needs the variable {', '.join(missing)}: "
            "give --var NAME=VALUE, or --secret NAME=env:VARIABLE for a secret"
        )


def check_grant(operations: Sequence[str]) -> None:
    """Raise PlaybookError where a grant names an operation that doesn't exist."""
    for name in operations:
        if name not in CLASSES and not any(covers([name], operation) for operation in OPERATIONS):
            raise PlaybookError("--grant: " + unknown("operation", name, [*OPERATIONS, *CLASSES]))
