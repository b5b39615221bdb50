"""Resources: runs with their reports and pictures, long outputs of commands, and the playbook format."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import Completion, CompletionArgument

from reflexarc.errors import ReflexarcError
from reflexarc.inventory.places import phase_folders, places
from reflexarc.mcp.results import MAX_ERROR, cleaned, within_fence
from reflexarc.runs.artifacts import picture
from reflexarc.runs.journal import Journal
from reflexarc.runs.ownership import is_driven, standing

if TYPE_CHECKING:
    from reflexarc.mcp.serving import Served

P = ParamSpec("P")
T = TypeVar("T")
MAX_RUNS = 50
MAX_COMPLETIONS = 20


def register(server: MCPServer[Any], served: Served) -> None:
    """Offer the resources, and completions of runs and machines."""
    _runs(server)
    _others(server, served)

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(reference: object, argument: CompletionArgument, context: object) -> Completion | None:
        known: list[str] = []
        if argument.name == "run_id":
            from reflexarc.mcp.letting import all_readable

            with suppress(ReflexarcError), closing(Journal(places().journal)) as journal:
                known = [run.run_id for run in all_readable(journal)]
        elif argument.name == "machine":
            with suppress(ReflexarcError):
                known = [entry.name for entry in served.hub.entries()]
        return Completion(
            values=[name for name in known if name.startswith(argument.value)][:MAX_COMPLETIONS]
        )


def _runs(server: MCPServer[Any]) -> None:
    @server.resource("reflexarc://runs", mime_type="application/json")
    @_telling
    def runs() -> str:
        """The newest runs and how they stand."""
        from reflexarc.mcp.letting import all_readable

        with closing(Journal(places().journal)) as journal:
            rows = [
                {"run_id": run.run_id, "machine": run.machine, "playbook": run.playbook, "step": run.step,
                 "outcome": standing(run, places().runs), "reason": run.reason}
                for run in all_readable(journal)[:MAX_RUNS]
            ]  # fmt: skip
        return json.dumps(rows, indent=1)

    @server.resource("reflexarc://runs/{run_id}", mime_type="application/json")
    @_telling
    def run(run_id: str) -> str:
        """One run: outcome, telemetry, what it registered, its escalation."""
        from reflexarc.mcp.letting import readable
        from reflexarc.runs.describe import describe_run
        from reflexarc.runs.ledger import Ledger

        with closing(Journal(places().journal)) as journal:
            found = readable(journal, run_id)
            ledger, record = Ledger.open(journal, found), journal.read(found)
        return json.dumps(describe_run(ledger.state, record, owned=is_driven(places().runs, found)), indent=1)

    @server.resource("reflexarc://runs/{run_id}/report", mime_type="text/html")
    @_telling
    def report(run_id: str) -> str:
        """A run as one self-contained page: what it saw, did and cost."""
        from reflexarc.mcp.letting import readable
        from reflexarc.report.html import html_report
        from reflexarc.report.story import tell

        with closing(Journal(places().journal)) as journal:
            return html_report(tell(journal, places().runs, readable(journal, run_id)))

    @server.resource("reflexarc://runs/{run_id}/frames/{name}", mime_type="image/png")
    @_telling
    def frame(run_id: str, name: str) -> bytes:
        """A picture that a run kept, by its `ref`."""
        from reflexarc.mcp.letting import readable

        with closing(Journal(places().journal)) as journal:
            folder = places().runs / readable(journal, run_id)
        data = picture(folder, name)
        if data is None:
            raise ResourceError(f"run {run_id} has no picture {name}")
        return data


def _others(server: MCPServer[Any], served: Served) -> None:
    @server.resource("reflexarc://outputs/{name}/{part}", mime_type="text/plain")
    @_telling
    def output(name: str, part: str) -> str:
        """What a command wrote, untrusted, in parts of 64 KiB; `exec` names it where it was too long for a result."""
        text = served.outputs.part(name, part)
        if text is None:
            raise ResourceError(f"there is no part {part} of an output {name}; the newest are kept only")
        return within_fence(text)

    @server.resource("reflexarc://playbook-format", mime_type="application/schema+json")
    @_telling
    def playbook_format() -> str:
        """The JSON Schema of playbooks, with what each key means."""
        from reflexarc.playbook.schema import schema
        from reflexarc.sensing.recognise import load_recognisers

        return json.dumps(schema(load_recognisers(phase_folders()).phases), indent=1)


def _telling(read: Callable[P, T]) -> Callable[P, T]:
    """Have a resource say why it can't be read, where reflexarc raises that on purpose."""

    @functools.wraps(read)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except ReflexarcError as error:
            raise ResourceError(cleaned(str(error))[:MAX_ERROR]) from error

    return told
