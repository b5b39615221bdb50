"""Files of this host that steps name by what is known before the run: found wrong then, not in its middle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from reflexarc.errors import PlaybookError, SafetyError
from reflexarc.machine.hostpaths import HostPaths, settled
from reflexarc.playbook.model import Playbook, Step
from reflexarc.playbook.template import render, sole_name
from reflexarc.runs.preflight import Finding, Severity

FIX = "put the file there, name its folder or host in the machine's entry, or give it with --var"


@dataclass(frozen=True)
class Misplaced:
    """A file that a step can't use. index: of the step; argument: which one names the file; sure: it is not skipped."""

    index: int
    step: Step
    argument: str
    error: SafetyError

    @property
    def sure(self) -> bool:
        return self.step.when is None

    @property
    def finding(self) -> Finding:
        """As preflight tells it: of a step that may be skipped it is a warning."""
        severity = Severity.CRITICAL if self.sure else Severity.WARNING
        return Finding("files", severity, f"step {self.step.name!r}: {self.error}", FIX)


def file_findings(
    playbook: Playbook, given: Mapping[str, object], host: HostPaths, start_at: int
) -> list[Finding]:
    """What is found of the files of this host that a run would name. given: the variables that a person gave."""
    found = []
    typed = [name for name in given if name in playbook.host_variables]
    for name in typed:
        for operation in playbook.host_variables[name]:
            try:
                host.check(operation, settled(str(given[name])))
            except SafetyError as error:
                found.append(Finding("files", Severity.CRITICAL, f"{name}: {error}", FIX))
    values = {**playbook.defaults, **given}
    wrong = misplaced(playbook, host, values, typed=typed, start_at=start_at)
    return [*found, *(one.finding for one in wrong)]


def misplaced(
    playbook: Playbook,
    host: HostPaths,
    given: Mapping[str, object],
    *,
    typed: Collection[str] = (),
    start_at: int = 0,
) -> Iterator[Misplaced]:
    """Every file that a step from that index on can't use.

    given: variables by name; a file whose name hangs on another one is passed over. typed: those of them that a
    person gave for a file of this host, which are checked apart.
    """
    downloaded: set[str] = set()
    for index, step in enumerate(playbook.steps[start_at:], start_at):
        for argument, name in _named(step, given, typed):
            try:
                if step.operation != "files.write" or name not in downloaded:
                    _check(host, str(step.operation), name)
            except SafetyError as error:
                yield Misplaced(index, step, argument, error)
            if step.operation == "files.read":
                downloaded.add(name)


def _named(step: Step, given: Mapping[str, object], typed: Collection[str]) -> Iterator[tuple[str, str]]:
    """The arguments of a step that name a file of this host, each with the name, where that is known."""
    for argument, spec in step.spec.arguments.items() if step.spec else ():
        value = step.args.get(argument)
        if spec.type != "path" or not isinstance(value, str) or sole_name(value) in typed:
            continue
        with suppress(PlaybookError):
            yield argument, render(value, given)


def _check(host: HostPaths, operation: str, name: str) -> None:
    match operation:
        case "media.mount":
            host.image(name, typed=False)
        case "files.write":
            host.open_source(name, typed=False).close()
        case _:
            host.target(name, typed=False)
