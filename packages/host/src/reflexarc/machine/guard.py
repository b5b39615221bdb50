"""The guard in front of every driver: policy, permits for destructive operations, the audit log."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from reflexarc.errors import ReflexarcError, SafetyError
from reflexarc.machine.policy import EVIDENCE_MAX_AGE, Policy, covers, is_destructive

Audit = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class Permit:
    """One destructive operation, once, on evidence captured at `evidence_at` (monotonic seconds).

    evidence: that evidence in words, for the audit log. arguments: what the operation's details must say.
    """

    operation: str
    evidence_at: float
    reason: str
    evidence: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)


class Grants(Protocol):
    """What a person granted for direct calls to one machine, in advance."""

    def has(self, operation: str, details: Mapping[str, object]) -> bool:
        """Tell whether a grant covers the call; it is not used up by that."""
        ...

    def use(self, operation: str, details: Mapping[str, object]) -> str | None:
        """Use a grant up and say which, None where none covers the call or somebody else was first."""
        ...


@dataclass
class Guard:
    """Decides on every operation before a driver sees it; whatever it refuses was not sent.

    via: what an agent comes by, for the audit log.
    granted: operation or class names that a person granted for direct calls (the API and single commands).
    grants: what a person granted for them in advance. Runs have neither: they hand in one `Permit` for each
    destructive act.
    preflight: awaited before a destructive direct call. before_sending: called with every operation that sends
    something, once it is allowed; takes the lock. fence: called before that; raises where whatever held the machine
    has lost it to another process. policy_now: reads the policy anew, so that what an operator takes away while the
    machine is open is refused from then on.
    sends: how many operations were let through that send something.
    """

    machine: str
    policy: Policy
    agent: bool = False
    via: str = ""
    granted: Sequence[str] = ()
    dry_run: bool = False
    audit: Audit | None = None
    grants: Grants | None = None
    preflight: Callable[[], Awaitable[None]] | None = None
    before_sending: Callable[[str], None] | None = None
    fence: Callable[[], None] | None = None
    policy_now: Callable[[], Policy] | None = None
    clock: Callable[[], float] = time.monotonic
    sends: int = 0
    _permits: list[Permit] = field(default_factory=list)
    _context: Mapping[str, object] = field(default_factory=dict)
    _masked: Callable[[str], str] = str
    _watched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.agent and self.granted:
            raise SafetyError(
                f"{self.machine}: an agent grants nothing; a person can, with `reflexarc grant {self.machine}`",
                rule="agent_grant",
                operation=self.granted[0],
            )

    @contextmanager
    def permit(self, permit: Permit) -> Iterator[None]:
        """Let the one operation pass, once, while the context lasts."""
        self._permits.append(permit)
        try:
            yield
        finally:
            if permit in self._permits:
                self._permits.remove(permit)

    @contextmanager
    def acting_for(self, masked: Callable[[str], str] = str, **context: object) -> Iterator[None]:
        """Have the audit log say for which run and step operations are while the context lasts.

        masked: gives a text without the run's secrets, for the log.
        """
        before = self._context, self._masked
        self._context, self._masked = context, masked
        try:
            yield
        finally:
            self._context, self._masked = before

    def watch(self, operation: str) -> None:
        """Let a reading pass that is repeated all the time: it is in the audit log once, a refusal each time."""
        if operation in self._watched:
            self._read_policy()
            self.policy.check(operation, agent=self.agent, machine=self.machine)
            return
        self.check(operation)
        self._watched.add(operation)

    async def admit(self, operation: str, **details: object) -> None:
        """Let the operation pass as `check` does; a destructive direct call after preflight only."""
        if self.preflight is not None and self._is_direct(operation, details):
            try:
                await self.preflight()
            except ReflexarcError:
                self._log(operation, details, allowed=False, why="preflight")
                raise
        self.check(operation, **details)

    def check(self, operation: str, **details: object) -> None:
        """Let the operation pass, or raise SafetyError with the rule and what an operator can do.

        Every call is one line of the audit log, written before anything is sent; details never hold the text of
        secrets. Raises JournalError where the log can't be written: then nothing is sent.
        """
        try:
            why, evidence = self._decide(operation, details)
        except SafetyError as refusal:
            self._log(operation, details, allowed=False, why=refusal.rule)
            raise
        sends = not operation.startswith("observe.")
        if sends:
            self.require_own()
            if self.before_sending is not None:
                self.before_sending(operation)
        self._log(operation, {**details, **evidence}, allowed=True, why=why)
        self.sends += sends

    def check_run(self, operation: str, **details: object) -> None:
        """Let a run of the machine be read, begun, answered or cancelled, or raise SafetyError; one line of the log."""
        try:
            self.policy.check_run(operation, agent=self.agent, machine=self.machine)
        except SafetyError as refusal:
            self._log(operation, details, allowed=False, why=refusal.rule)
            raise
        self._log(operation, details, allowed=True, why="policy")

    def require_own(self) -> None:
        """Raise what the fence raises; asked again between the keys of a long text."""
        if self.fence is not None:
            self.fence()

    def _decide(self, operation: str, details: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        """Why the operation may pass, and on what evidence."""
        self._read_policy()
        self.policy.check(operation, agent=self.agent, machine=self.machine)
        if self.dry_run and not operation.startswith("observe."):
            raise SafetyError(
                f"{self.machine}: dry run, {operation} was not sent", rule="dry_run", operation=operation
            )
        if not is_destructive(operation):
            return "policy", {}
        permit = self._spent_permit(operation, details)
        if permit is not None:
            return permit.reason, {"evidence": permit.evidence, "age": self._age(permit)}
        used = self._used_grant(operation, details)
        if used is not None:
            return used, {}
        raise SafetyError(
            f"{self.machine}: {operation} is destructive and nobody granted it; a person can, with "
            f"`reflexarc grant {self.machine} {operation}`, with --grant {operation} (runs), --yes (single commands, "
            f'at a terminal) or open(..., grant=["{operation}"])',
            rule="no_grant",
            operation=operation,
        )

    def _read_policy(self) -> None:
        if self.policy_now is not None:
            self.policy = self.policy_now()

    def _used_grant(self, operation: str, details: Mapping[str, object]) -> str | None:
        """Which grant for direct calls the operation passes on; what acts for a run has none but its permits."""
        if self._context:
            return None
        if covers(self.granted, operation):
            return "granted"
        return self.grants.use(operation, details) if self.grants is not None else None

    def _is_direct(self, operation: str, details: Mapping[str, object]) -> bool:
        """Tell whether the operation is a destructive one that would pass on a grant for direct calls."""
        if self.dry_run or self._context or not is_destructive(operation):
            return False
        granted = covers(self.granted, operation)
        return granted or (self.grants is not None and self.grants.has(operation, details))

    def _spent_permit(self, operation: str, details: Mapping[str, object]) -> Permit | None:
        for permit in self._permits:
            if permit.operation != operation:
                continue
            if any(details.get(name) != value for name, value in permit.arguments.items()):
                raise SafetyError(
                    f"{self.machine}: {operation} is not what was granted: its arguments are others by now",
                    rule="other_arguments",
                    operation=operation,
                )
            if self._age(permit) > EVIDENCE_MAX_AGE:
                raise SafetyError(
                    f"{self.machine}: the evidence for {operation} is older than {EVIDENCE_MAX_AGE:g} s; "
                    "look again before it fires",
                    rule="stale_evidence",
                    operation=operation,
                )
            self._permits.remove(permit)
            return permit
        return None

    def _age(self, permit: Permit) -> float:
        return round(self.clock() - permit.evidence_at, 3)

    def _log(self, operation: str, details: Mapping[str, object], *, allowed: bool, why: str) -> None:
        if self.audit is not None:
            who = f"agent {self.via}".rstrip() if self.agent else "person"
            line = {"machine": self.machine, "operation": operation, "who": who, "allowed": allowed}
            self.audit(
                {**line, "why": why, **self._context, **{k: self._clean(v) for k, v in details.items()}}
            )

    def _clean(self, value: object) -> object:
        """A detail without secrets, also where it is a list."""
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        return self._masked(value) if isinstance(value, str) else value
