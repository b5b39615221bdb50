"""The audit log's lines on what agents do: which client it was, and what is refused before a guard sees it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext

from reflexarc.errors import (
    ConfigError,
    JournalError,
    MachineBusyError,
    PlaybookError,
    ReflexarcError,
    RunError,
    SafetyError,
)

MAX_NAME = 64
MAX_PROBLEM = 300
_REFUSALS = (SafetyError, ConfigError, PlaybookError, RunError, MachineBusyError)


@dataclass
class Caller:
    """One request of a client. name: what the client calls itself; peer: where it comes from, empty over a pipe.

    tool, arguments: of the call that it is. logged: whether its refusal is in the audit log.
    """

    name: str
    peer: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    logged: bool = False


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def asked_by(context: ServerRequestContext[Any, Any]) -> Iterator[None]:
    """Have the audit log say who asked while the context lasts, and in the tasks that begin meanwhile."""
    token = _caller.set(Caller(client_of(context), _peer(context)))
    try:
        yield
    finally:
        _caller.reset(token)


@contextmanager
def calling(tool: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Have what is refused meanwhile be a refusal of this call."""
    asked = _caller.get() or Caller("", "")
    token = _caller.set(Caller(asked.name, asked.peer, tool, arguments))
    try:
        yield
    finally:
        _caller.reset(token)


def write(line: Mapping[str, object]) -> None:
    """Append a guard's line, with the client; raises JournalError where the log can't be written."""
    from reflexarc.inventory.places import places
    from reflexarc.machine.audit import AuditLog

    caller = _caller.get()
    if caller is not None:
        line = {**line, "client": caller.name, **({"peer": caller.peer} if caller.peer else {})}
        caller.logged = caller.logged or not line["allowed"]
    AuditLog(places().audit).write(line)


def refused(error: ReflexarcError) -> None:
    """Append a line where the call is refused and no guard has written it down; what merely failed has none."""
    if isinstance(error, _REFUSALS):
        why = error.rule if isinstance(error, SafetyError) else type(error).__name__
        operation = error.operation if isinstance(error, SafetyError) else ""
        unfit(why, str(error), operation)


def unfit(why: str, problem: str, operation: str = "") -> None:
    """Append a line on a call that no guard saw. What can't be written down doesn't matter: nothing was sent."""
    caller = _caller.get()
    if caller is None or caller.logged:
        return
    named = {"run": caller.arguments.get("run_id"), "action": caller.arguments.get("action")}
    line: dict[str, object] = {
        "machine": _word(caller.arguments.get("machine", "")), "operation": operation or f"tool.{_word(caller.tool)}",
        "who": "agent mcp", "allowed": False, "why": why, "tool": _word(caller.tool),
        **{key: _word(value) for key, value in named.items() if isinstance(value, str)},
        "problem": "".join(c if c.isprintable() else " " for c in problem[:MAX_PROBLEM]),
    }  # fmt: skip
    with suppress(JournalError):
        write(line)


def client_of(context: ServerRequestContext[Any, Any]) -> str:
    """What a client calls itself, in letters that can't be taken for another field of the log."""
    params = context.session.client_params
    if params is None:
        return "unnamed"
    return _word(f"{params.client_info.name}/{params.client_info.version}")


def _peer(context: ServerRequestContext[Any, Any]) -> str:
    """The address that a request over HTTP came from, and a mark of its session where it has one."""
    request = context.request
    address = getattr(request, "client", None)
    if request is None or address is None:
        return ""
    session = request.headers.get("mcp-session-id", "")
    mark = f"#{hashlib.sha256(session.encode()).hexdigest()[:8]}" if session else ""
    return f"{address.host}:{address.port}{mark}"


def _word(text: object) -> str:
    return re.sub(r"[^\w.@/+-]+", "_", str(text)[:MAX_NAME])
