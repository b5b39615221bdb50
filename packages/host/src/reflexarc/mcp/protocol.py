"""The SDK's server with what reflexarc adds to every request: who asks, what was refused, which tools there are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from anyio import CancelScope
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp_types import CallToolResult, InitializeResult, InputRequiredResult, Tool
from pydantic import AnyUrl, ValidationError

from reflexarc import __version__
from reflexarc.errors import ConfigError, SafetyError
from reflexarc.mcp import auditing
from reflexarc.mcp.advertising import without_elements
from reflexarc.mcp.arguments import closed, require_known
from reflexarc.mcp.asking import PATIENCE, Asking, said_no
from reflexarc.mcp.callers import told_apart
from reflexarc.mcp.changes import EVERY, Changes
from reflexarc.mcp.results import failure
from reflexarc.mcp.serving import Served


class Server(MCPServer[Any]):
    """A server of tools that are told as the machines are at that moment.

    patience: seconds that a person at a client has to answer; every: seconds between two looks for agents.
    """

    def __init__(
        self, served: Served, instructions: str, *, patience: float = PATIENCE, every: float = EVERY
    ) -> None:
        self.served = served
        self._changes = Changes(served.offers_elements, every)
        self._asking = Asking(patience, served.inventory)
        super().__init__(
            "reflexarc",
            title="reflexarc",
            version=__version__,
            instructions=instructions,
            lifespan=self._life,
            log_level="WARNING",
            subscriptions=self._changes,
            middleware=[told_apart, self._each],
        )

    @asynccontextmanager
    async def _life(self, _: MCPServer[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            # A client that is gone cancels what it called for, and must not cancel the letting go of keys.
            with CancelScope(shield=True):
                await self._changes.close()
                await self.served.close()

    async def _each(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        with auditing.asked_by(ctx):
            answer = await call_next(ctx)
        self._changes.heard_from(ctx)
        return _announced(answer) if ctx.method == "initialize" else answer

    async def list_tools(self) -> list[Tool]:
        """The tools, those on elements of a desktop only while there are some."""
        tools = [closed(tool) for tool in await super().list_tools()]
        if await self._changes.offers_elements():
            return tools
        return [without_elements(tool) if tool.name == "computer" else tool for tool in tools]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; where it is refused, a person at the client may be asked, and it is called once more."""

        async def once() -> CallToolResult | InputRequiredResult:
            with auditing.calling(name, arguments):
                return await self._called(name, arguments, context)

        result = await once()
        return result if context is None else await self._asking.over(context, name, arguments, result, once)

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[Any, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Read a resource; what is refused is in the audit log, too."""
        with auditing.calling("resource", {}):
            try:
                return await super().read_resource(uri, context)
            except ResourceError as error:
                auditing.unfit("ResourceError", str(error))
                raise

    async def _called(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None
    ) -> CallToolResult | InputRequiredResult:
        if context is not None and said_no(context):
            no = SafetyError(f"{name}: the person at the client said no", rule="declined", operation=name)
            auditing.refused(no)
            return failure(no)
        try:
            require_known(await super().list_tools(), name, arguments)
            return await super().call_tool(name, arguments, context)
        except ConfigError as error:
            auditing.refused(error)
            return failure(error)
        except ToolError as error:
            auditing.unfit("arguments", _problem(error))
            raise


def _problem(error: ToolError) -> str:
    """Which arguments are wrong, without what they say."""
    if not isinstance(error.__cause__, ValidationError):
        return "there is no such tool"
    found = error.__cause__.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in found[:5])


def _announced(answer: HandlerResult) -> HandlerResult:
    """The answer to a client that shakes hands, with the promise to tell when the tools change."""
    if isinstance(answer, InitializeResult) and answer.capabilities.tools is not None:
        answer.capabilities.tools.list_changed = True
    elif isinstance(answer, dict):
        answer.get("capabilities", {}).get("tools", {})["listChanged"] = True
    return answer
