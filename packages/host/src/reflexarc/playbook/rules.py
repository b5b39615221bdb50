"""The rules of lint: what a playbook may say and hardly means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from reflexarc.machine import keys
from reflexarc.machine.policy import covers
from reflexarc.observation import Phases
from reflexarc.playbook.conditions import phases_in, templates_in
from reflexarc.playbook.document import Path
from reflexarc.playbook.model import DEFAULT_TIMEOUT, Playbook, Step
from reflexarc.playbook.template import roots_in

ENTER = ({"enter"}, {"kp_enter"})


@dataclass(frozen=True)
class Remark:
    """What a rule has to say. path: what it speaks of."""

    code: str
    path: Path
    message: str
    remedy: str


def _placed(playbook: Playbook) -> Iterator[tuple[Path, Step]]:
    return ((("steps", index), step) for index, step in enumerate(playbook.steps))


def _unverified(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    for path, step in _placed(playbook):
        if step.authorisation is not None and step.must_hold is None:
            yield Remark(
                "unverified",
                (*path, "action"),
                f"{step.action} of {step.name!r} fires with nothing verified: it has neither precondition nor wait_for "
                "that looks at the machine",
                "add a precondition, such as the phase in which it may fire",
            )


def _no_alarms(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    alarms = playbook.alarm
    if alarms is None:
        alarms = tuple(name for name, phase in phases.items() if phase.alarm)
    waits = any(step.wait_for is not None or step.expect is not None for step in playbook.steps)
    if not alarms and waits:
        yield Remark(
            "no-alarm",
            ("alarm",),
            "no phase ends a wait at once: a crash is waited out until the timeout",
            "leave `alarm` out, or name the phases that are alarms",
        )
    for path, step in _placed(playbook) if alarms else ():
        if step.wait_for is not None and all(_among(phases, alarm, step.passing) for alarm in alarms):
            yield Remark(
                "no-alarm",
                (*path, "passing"),
                f"every alarm may pass while {step.name!r} waits: a crash is waited out until the timeout",
                "take the alarms that nobody expects there out of `passing`",
            )


def _among(phases: Phases, name: str, wanted: tuple[str, ...]) -> bool:
    return any(phases.is_a(name, one) for one in wanted)


def _enter_twice(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    before: Step | None = None
    for path, step in _placed(playbook):
        typed = str(step.args.get("text", "")) if step.action == "type_text" else ""
        if step.args.get("enter") and typed.endswith("\n"):
            yield Remark(
                "enter-twice",
                (*path, "args", "enter"),
                f"{step.name!r} presses Enter twice: its text ends in a line break, and enter is true",
                "keep one of them",
            )
        if before is not None and _ends_with_enter(before) and _begins_with_enter(step):
            yield Remark(
                "enter-twice",
                (*path, "action"),
                f"{step.name!r} presses Enter again right after {before.name!r} did",
                "drop one, or let this step wait for what the first one leads to",
            )
        before = None if step.when is not None or step.expect is not None else step


def _ends_with_enter(step: Step) -> bool:
    typed = str(step.args.get("text", ""))
    return step.action == "type_text" and bool(step.args.get("enter") or typed.endswith("\n"))


def _begins_with_enter(step: Step) -> bool:
    pressed = step.args.get("key") or step.args.get("chord")
    if step.action == "type_text":
        presses = str(step.args.get("text", "")).startswith("\n")
    else:
        presses = isinstance(pressed, str) and {*keys.chord(pressed)} in ENTER
    return presses and step.wait_for is None and step.when is None


def _short_timeout(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    for path, step in _placed(playbook):
        own = step.timeout is not None
        timeout = step.timeout if own else playbook.timeout
        known = [phases[name] for name in phases_in(step.wait_for)]
        slow = max(
            (phase for phase in known if phase.usual_max != DEFAULT_TIMEOUT),
            key=lambda phase: phase.usual_max,
            default=None,
        )
        if timeout is not None and slow is not None and timeout < slow.usual_max:
            yield Remark(
                "short-timeout",
                (*path, "timeout" if own else "wait_for"),
                f"{step.name!r} waits {timeout:g} s for {slow.name}, which may well take {slow.usual_max:g} s",
                f"give it at least {slow.usual_max:g} s, or leave the timeout out",
            )


def _authorisation(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    source = playbook.source.get("authorize")
    asked = playbook.authorize
    if isinstance(source, Mapping) and not asked:
        yield Remark(
            "authorizes-nothing",
            ("authorize",),
            "authorize asks for nothing: that takes both `destructive: true` and ops",
            "give both, or leave it out",
        )
    needed = {step.authorisation for _, step in _placed(playbook) if step.authorisation is not None}
    if playbook.source.get("on_failure") is not None:
        needed.add("snapshot.restore")
    for index, name in enumerate(asked):
        if not any(covers([name], operation) for operation in needed):
            yield Remark(
                "needless-op",
                ("authorize", "ops", index),
                f"authorize.ops has {name}, and no step needs it",
                "take it out: ask for no more than is used",
            )
    for path, step in _placed(playbook):
        if step.authorisation is not None and not covers(asked, step.authorisation):
            yield Remark(
                "not-authorized",
                (*path, "action"),
                f"{step.name!r} is {step.authorisation}, and authorize.ops doesn't have it: the run will be held there",
                f"add {step.authorisation} to authorize.ops",
            )


def _names(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    declared = _declared(playbook)
    used = {name for key, part in playbook.source.items() if key != "vars" for name in _named_in(part)}
    for name in declared - used:
        yield Remark(
            "unused-variable",
            ("vars", name),
            f"the variable {name!r} is never used",
            "take it out, or look it up with {{ " + name + " }}",
        )
    registered: set[str] = set()
    for path, step in _placed(playbook):
        asked = {name for text in templates_in(step.when) for name in roots_in(text)}
        for name in sorted(asked - declared - registered):
            yield Remark(
                "unregistered",
                (*path, "when"),
                f"{step.name!r} depends on {name!r}, which no earlier step registers and vars doesn't declare",
                f"register it in an earlier step, or declare {name!r} in vars",
            )
        registered |= {step.register} if step.register else set()


def _declared(playbook: Playbook) -> set[str]:
    declared = playbook.source.get("vars")
    return {str(name) for name in declared} if isinstance(declared, Mapping) else set()


def _texts(part: object) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _texts(value)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _texts(item)


def _named_in(part: object) -> Iterator[str]:
    for text in _texts(part):
        yield from roots_in(text)


def _unreachable(playbook: Playbook, phases: Phases) -> Iterator[Remark]:
    failed: Step | None = None
    for path, step in _placed(playbook):
        if failed is not None:
            yield Remark(
                "unreachable",
                path,
                f"{step.name!r} is never reached: {failed.name!r} ends the run in any case",
                "take it out, or give the failing step a `when`",
            )
            return
        if step.action == "fail" and step.when is None:
            failed = step


CHECKS: tuple[Callable[[Playbook, Phases], Iterator[Remark]], ...] = (
    _unverified, _no_alarms, _enter_twice, _short_timeout, _authorisation, _names, _unreachable,
)  # fmt: skip
