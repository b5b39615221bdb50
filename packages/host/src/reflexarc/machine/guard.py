"""The guard in front of every driver: policy, permits for destructive operations, the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from reflexarc.errors import SafetyError
from reflexarc.machine.policy import Policy, covers, is_destructive

EVIDENCE_MAX_AGE = 2.0

Audit = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class Permit:
    """One destructive operation, once, on evidence captured at `evidence_at` (monotonic seconds)."""

    operation: str
    evidence_at: float
    reason: str


@dataclass
class Guard:
    """Decides on every operation before a driver sees it; whatever it refuses was not sent.

    granted: operation or class names that a person granted for direct calls (the API and single commands).
    Runs grant nothing here: they hand in one `Permit` for each destructive act.
    before_sending: called with every operation that sends something, once it is allowed; takes the lock.
    fence: called before anything is sent; raises where whatever held the machine has lost it to another process.
    sends: how many operations were let through that send something.
    """

    machine: str
    policy: Policy
    agent: bool = False
    granted: Sequence[str] = ()
    dry_run: bool = False
    audit: Audit | None = None
    before_sending: Callable[[str], None] | None = None
    fence: Callable[[], None] | None = None
    clock: Callable[[], float] = time.monotonic
    sends: int = 0
    _permits: list[Permit] = field(default_factory=list)

    @contextmanager
    def permit(self, permit: Permit) -> Iterator[None]:
        """Let the one operation pass, once, while the context lasts."""
        self._permits.append(permit)
        try:
            yield
        finally:
            if permit in self._permits:
                self._permits.remove(permit)

    def check(self, operation: str, **details: object) -> None:
        """Let the operation pass, or raise SafetyError with the rule and what an operator can do.

        Every call is one line of the audit log; details never hold the text of secrets.
        """
        try:
            why = self._decide(operation)
        except SafetyError as refusal:
            self._log(operation, details, allowed=False, why=refusal.rule)
            raise
        if not operation.startswith("observe."):
            self.require_own()
            if self.before_sending is not None:
                self.before_sending(operation)
            self.sends += 1
        self._log(operation, details, allowed=True, why=why)

    def require_own(self) -> None:
        """Raise what the fence raises; asked again between the keys of a long text."""
        if self.fence is not None:
            self.fence()

    def _decide(self, operation: str) -> str:
        self.policy.check(operation, agent=self.agent, machine=self.machine)
        if self.dry_run and not operation.startswith("observe."):
            raise SafetyError(
                f"{self.machine}: dry run, {operation} was not sent", rule="dry_run", operation=operation
            )
        if not is_destructive(operation):
            return "policy"
        if covers(self.granted, operation):
            return "granted"
        return self._spend_permit(operation)

    def _spend_permit(self, operation: str) -> str:
        for permit in self._permits:
            if permit.operation != operation:
                continue
            if self.clock() - permit.evidence_at > EVIDENCE_MAX_AGE:
                raise SafetyError(
                    f"{self.machine}: the evidence for {operation} is older than {EVIDENCE_MAX_AGE:g} s; "
                    "look again before it fires",
                    rule="stale_evidence",
                    operation=operation,
                )
            self._permits.remove(permit)
            return permit.reason
        raise SafetyError(
            f"{self.machine}: {operation} is destructive and nobody granted it; "
            f"a person can, with --grant {operation} (runs), --yes (single commands) or "
            f'open(..., grant=["{operation}"])',
            rule="no_grant",
            operation=operation,
        )

    def _log(self, operation: str, details: Mapping[str, object], *, allowed: bool, why: str) -> None:
        if self.audit is not None:
            who = "agent" if self.agent else "person"
            line = {"machine": self.machine, "operation": operation, "who": who, "allowed": allowed}
            self.audit({**line, "why": why, **details})
