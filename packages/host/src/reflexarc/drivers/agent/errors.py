"""What an agent answers or breaks, as the errors that callers get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reflexarc.errors import (
    ConfigError,
    ConnectionLostError,
    MachineError,
    OperationRejectedError,
    OperationTimeoutError,
    PeerProtocolError,
)
from reflexarc_wire import WireError
from reflexarc_wire.errors import LOST_BEFORE_EXIT
from reflexarc_wire.replies import Done, Failure
from reflexarc_wire.requests import Request

MAX_SAID = 300

_ADVICE = {
    "stale_ref": "; the element is gone: read the tree again",
    "ambiguous_ref": "; it is not one element: read the tree again",
    "busy": "; try again later",
}


def said(text: str) -> str:
    """A guest's own words, fit for one line of ours."""
    return "".join(character if character.isprintable() else " " for character in text[:MAX_SAID]).strip()


@contextmanager
def valid() -> Iterator[None]:
    """Have what can't be put into a request be the caller's mistake: ConfigError, and nothing was sent."""
    try:
        yield
    except WireError as error:
        raise ConfigError(f"an agent can't be asked that: {error}") from error


def refused(failure: Failure, request: Request, *, machine: str, operation: str) -> MachineError:
    """The error for a request that the agent did not carry out."""
    detail = said(failure.detail or "")
    code = said(failure.code or "")
    text = f"its agent refused {request.op}: {said(failure.error)}{_ADVICE.get(code, '')}"
    if code == LOST_BEFORE_EXIT:
        return lost(failure.error, machine=machine, operation=operation)
    if code == "timeout":
        return OperationTimeoutError(
            f"its agent gave {request.op} up: {said(failure.error)}", machine=machine, operation=operation
        )
    if code == "not_authorized" and request.op in ("ping", "hello"):
        text = f"{text}; look at `token` in the inventory: it has to be the agent's own"
    elif code in ("not_authorized", "unsupported") and detail:
        text = f"{text}; {detail}"
    return OperationRejectedError(text, machine=machine, operation=operation, code=code, detail=detail)


def undelivered(done: Done, request: Request, *, machine: str, operation: str) -> MachineError | None:
    """The error for an act that was not, or perhaps not, delivered; None where it was.

    An agent of version 2 doesn't tell: its word that it was done is taken.
    """
    if done.delivery in (None, "delivered"):
        return None
    if done.delivery == "not_delivered":
        return OperationRejectedError(
            f"{request.op} was not delivered; look at the element, and try it again",
            machine=machine,
            operation=operation,
            code="not_delivered",
        )
    return ConnectionLostError(
        f"whether {request.op} was delivered is not known: it may have happened; look before you repeat it",
        machine=machine,
        operation=operation,
    )


def lost(why: str, *, machine: str, operation: str) -> ConnectionLostError:
    """The error for a connection that ended after something was sent."""
    reason = f" ({said(why)})" if why else ""
    return ConnectionLostError(
        f"the connection to its agent ended{reason}; what was asked for may have happened: look before you repeat it",
        machine=machine,
        operation=operation,
    )


def broken(error: WireError, *, machine: str, operation: str) -> PeerProtocolError:
    """The error for a peer that is no agent, or one that errs."""
    return PeerProtocolError(
        f"its agent broke the protocol: {said(str(error))}; what was asked for may have happened",
        machine=machine,
        operation=operation,
        raw=str(error).encode(),
    )
