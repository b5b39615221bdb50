"""Every error reflexarc raises on purpose, named by what the caller can do about it.

    ReflexarcError
    |- ConfigError             fix your inventory or your arguments      (path, line)
    |- PlaybookError           fix your playbook                         (path, line, column)
    |- SafetyError             policy refused                            (rule, operation)
    |- RunError                a run can't take what you asked of it     (run_id)
    |- JournalError            the journal of runs can't be read or written  (path, run_id)
    `- MachineError            a machine or what is between              (machine, operation)
       |- CapabilityError      nothing on this machine offers it
       |- ConnectError         never got through: retry later
       |- ConnectionLostError  was through, outcome unknown: look before repeating
       |- OperationTimeoutError
       |- OperationRejectedError   the device said no                    (code, detail)
       |- MachineBusyError     somebody else holds the machine's lock
       |- OffScriptError       a wait met a state that nobody expected    (reason, phase)
       `- PeerProtocolError    the peer broke its protocol               (raw)

A text of an error says what happened, on which machine, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ReflexarcError(Exception):
    """The root; catch it to catch everything reflexarc raises on purpose."""


class ConfigError(ReflexarcError):
    """The inventory, a data file or an argument is wrong."""

    def __init__(self, message: str, *, path: Path | None = None, line: int | None = None) -> None:
        where = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(where + message)
        self.path = path
        self.line = line


class PlaybookError(ReflexarcError):
    """A playbook, or a reply that carries steps, is wrong; lines and columns count from 1."""

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        where = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column


class SafetyError(ReflexarcError):
    """A rule refused an operation; nothing was sent."""

    def __init__(self, message: str, *, rule: str, operation: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.operation = operation


class RunError(ReflexarcError):
    """A run can't take what was asked of it: unknown, ended, not held, or a stale escalation."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class JournalError(ReflexarcError):
    """The journal can't be read or written; what it already holds is untouched.

    run_id: the run that stands interrupted by it, empty where none does.
    """

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.run_id = ""


@contextmanager
def interrupting(run_id: str) -> Iterator[None]:
    """Name the run in a JournalError that interrupts it."""
    try:
        yield
    except JournalError as error:
        error.run_id = run_id
        raise


class MachineError(ReflexarcError):
    """Something went wrong on the way to a machine, or on it."""

    def __init__(self, message: str, *, machine: str, operation: str = "") -> None:
        super().__init__(f"{machine}: {message}")
        self.machine = machine
        self.operation = operation


class CapabilityError(MachineError):
    """Nothing on this machine offers what was asked for."""


class ConnectError(MachineError):
    """The device was never reached; nothing was sent."""


class ConnectionLostError(MachineError):
    """The device was reached and is gone: what was sent last may or may not have happened."""


class OperationTimeoutError(MachineError):
    """The device took the operation and did not finish in time."""


class OperationRejectedError(MachineError):
    """The device said no; `code` and `detail` are its own words."""

    def __init__(
        self, message: str, *, machine: str, operation: str = "", code: str = "", detail: str = ""
    ) -> None:
        super().__init__(message, machine=machine, operation=operation)
        self.code = code
        self.detail = detail


class MachineBusyError(MachineError):
    """Another run or command holds the machine's lock."""


class OffScriptError(MachineError):
    """A wait ended in a state that was not awaited; `reason` is the escalation's, `phase` what shows."""

    def __init__(self, message: str, *, machine: str, reason: str, phase: str) -> None:
        super().__init__(message, machine=machine, operation="wait_for")
        self.reason = reason
        self.phase = phase


class PeerProtocolError(MachineError):
    """The peer broke its protocol; `raw` is what it sent, cut to 200 bytes."""

    def __init__(self, message: str, *, machine: str, operation: str = "", raw: bytes = b"") -> None:
        super().__init__(message, machine=machine, operation=operation)
        self.raw = raw[:200]
