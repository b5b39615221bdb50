"""Resources: how runs stand, the pictures they kept, their reports, and the playbook format."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError

from reflexarc.errors import ReflexarcError
from reflexarc.inventory.places import phase_folders, places
from reflexarc.runs.journal import Journal
from reflexarc.runs.ownership import is_driven, standing

MAX_RUNS = 50
MAX_PICTURE = 8 << 20


def register(server: MCPServer[Any]) -> None:
    """Offer the resources."""

    @server.resource("reflexarc://runs", mime_type="application/json")
    def runs() -> str:
        """The newest runs and how they stand."""
        with closing(Journal(places().journal)) as journal:
            rows = [
                {"run_id": run.run_id, "machine": run.machine, "playbook": run.playbook, "step": run.step,
                 "outcome": standing(run, places().runs), "reason": run.reason}
                for run in journal.runs()[:MAX_RUNS]
            ]  # fmt: skip
        return json.dumps(rows, indent=1)

    @server.resource("reflexarc://runs/{run_id}", mime_type="application/json")
    def run(run_id: str) -> str:
        """One run: outcome, telemetry, what it registered, its escalation."""
        from reflexarc.runs.describe import describe_run
        from reflexarc.runs.ledger import Ledger

        try:
            with closing(Journal(places().journal)) as journal:
                found = journal.find(run_id)
                ledger, record = Ledger.open(journal, found), journal.read(found)
        except ReflexarcError as error:
            raise ResourceError(str(error)) from error
        return json.dumps(describe_run(ledger.state, record, owned=is_driven(places().runs, found)), indent=1)

    @server.resource("reflexarc://runs/{run_id}/frames/{name}", mime_type="image/png")
    def frame(run_id: str, name: str) -> bytes:
        """A picture that a run kept, by the last part of its `ref`."""
        with closing(Journal(places().journal)) as journal:
            try:
                folder = (places().runs / journal.find(run_id)).resolve()
            except ReflexarcError as error:
                raise ResourceError(str(error)) from error
        found = [path for path in folder.rglob("*.png") if path.name == name and path.is_file()]
        if not found or found[0].stat().st_size > MAX_PICTURE:
            raise ResourceError(f"run {run_id} has no picture {name}")
        return found[0].read_bytes()

    @server.resource("reflexarc://playbook-format", mime_type="application/schema+json")
    def playbook_format() -> str:
        """The JSON Schema of playbooks, with what each key means."""
        from reflexarc.playbook.schema import schema
        from reflexarc.sensing.recognise import load_recognisers

        return json.dumps(schema(load_recognisers(phase_folders()).phases), indent=1)
