"""Asking the person at a client, as a courtesy, where a call is refused for want of a grant or of the policy.

Nothing that a client answers allows anything: the call is made once more, and passes where a person has granted it
meanwhile, in a terminal or in the inventory.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anyio import move_on_after
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from reflexarc.mcp.results import cleaned

PATIENCE = 50.0
"""Seconds that a person has: clients commonly wait a minute for a call."""
QUIET = 30.0
"""Seconds in which nobody is asked again about the same operation on the same machine."""
MAX_ASKED = 256
MAX_ARGUMENT = 500
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_KEY = "person"
Answer = CallToolResult | InputRequiredResult


class Asking:
    """Asks what a call was refused for, in both eras of the protocol, and never too often."""

    def __init__(self, patience: float = PATIENCE, inventory: Path | None = None) -> None:
        self._patience = patience
        self._inventory = inventory
        self._asked: dict[tuple[str, str], float] = {}

    async def over(
        self,
        context: Context,
        tool: str,
        arguments: Mapping[str, Any],
        refused: Answer,
        again: Callable[[], Awaitable[Answer]],
    ) -> Answer:
        """What a call comes to in the end, after it came to this: the same, unless a person allowed it meanwhile."""
        values = _refusal(refused)
        if values is None or context.input_responses is not None or not _can_ask(context):
            return refused
        if not self._is_due(str(arguments.get("machine", "")), str(values["operation"])):
            return refused
        message = words(tool, arguments, values, self._inventory)
        question = ElicitRequestFormParams(message=message, requested_schema=NOTHING)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # The client calls again with the answer: no call stands open meanwhile.
            return InputRequiredResult(input_requests={_KEY: ElicitRequest(params=question)})
        return await again() if await self._confirmed(context, question) else refused

    async def _confirmed(self, context: Context, question: ElicitRequestFormParams) -> bool:
        with move_on_after(self._patience), suppress(MCPError, ValidationError):
            answer = await context.session.elicit_form(
                question.message, question.requested_schema, related_request_id=context.request_id
            )
            return bool(answer.action == "accept")
        return False

    def _is_due(self, machine: str, operation: str) -> bool:
        now = time.monotonic()
        self._asked = {what: at for what, at in self._asked.items() if now - at < QUIET}
        if (machine, operation) in self._asked or len(self._asked) >= MAX_ASKED:
            return False
        self._asked[machine, operation] = now
        return True


def said_no(context: Context) -> bool:
    """Tell whether the call comes with a person's answer that is no."""
    answers = (context.input_responses or {}).values()
    return any(getattr(answer, "action", "accept") != "accept" for answer in answers)


def words(tool: str, arguments: Mapping[str, Any], refusal: Mapping[str, Any], inventory: Path | None) -> str:
    """What the person is told: what is asked for, and how they allow it themselves."""
    if refusal["rule"] == "no_grant":
        bound = _bound(tool, arguments)
        call = ["reflexarc", "grant", str(arguments.get("machine")), f"{refusal['operation']}{bound}"]
        if inventory is not None:
            call += ["--inventory", str(inventory.absolute())]
        how = f"To allow it once, type this in a terminal of your own:\n\n    {shlex.join(call)}\n\n"
    else:
        how = f"{refusal['message']}.\n\n"
    return cleaned(
        f"The agent asks for {refusal['operation']} on {arguments.get('machine', 'the machine of a run')}, which is "
        f"not allowed to it. {how}Then accept: the call looks once more. Accepting alone allows nothing. Decline, and "
        "nothing is sent."
    )


def _bound(tool: str, arguments: Mapping[str, Any]) -> str:
    """The argument that a grant is bound to, as `reflexarc grant` takes it; it is the agent's own text."""
    if tool == "boot_device":
        return f"={arguments.get('device')}{',once' if arguments.get('once', True) else ''}"
    argument = arguments.get({"media": "source", "snapshot": "name"}.get(tool, ""))
    if argument is None or (tool == "media" and arguments.get("action") != "insert"):
        return ""
    return "=" + "".join(c for c in str(argument)[:MAX_ARGUMENT] if c.isprintable())


def _refusal(answer: Answer) -> Mapping[str, Any] | None:
    """The values of a refusal that a person could lift, None for any other answer."""
    if not isinstance(answer, CallToolResult) or not answer.is_error:
        return None
    values = answer.structured_content or {}
    return values if values.get("rule") in ("no_grant", "allow.agents") else None


def _can_ask(context: Context) -> bool:
    """Tell whether the client says that it shows forms."""
    offered = context.client_capabilities
    forms = None if offered is None else offered.elicitation
    return forms is not None and (forms.form is not None or forms.url is None)
