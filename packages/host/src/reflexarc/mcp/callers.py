"""Which client a call is from, as far as the protocol tells them apart."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

MAX_NAME = 200
_caller: ContextVar[str] = ContextVar("caller", default="")


def caller() -> str:
    """What tells the client of this call from others: its session, where it has one, and what it calls itself."""
    return _caller.get()


async def told_apart(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Have `caller` tell the client while a request of it is answered."""
    headers = {} if ctx.request is None else ctx.request.headers
    params = ctx.session.client_params
    name = "" if params is None else f"{params.client_info.name}/{params.client_info.version}"
    token = _caller.set(f"{headers.get('mcp-session-id', '')} {name}"[:MAX_NAME])
    try:
        return await call_next(ctx)
    finally:
        _caller.reset(token)
