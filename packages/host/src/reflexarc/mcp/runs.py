"""The tools on runs: begun, watched, answered and ended by agents. All that they are stands in the journal."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError, RunError, SafetyError
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.opening import open_session
from reflexarc.inventory.places import places
from reflexarc.inventory.replying import Record, ending, give, given_already, taken_up
from reflexarc.mcp import auditing
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.letting import check_readable, found, guard, readable
from reflexarc.mcp.playbooks import find
from reflexarc.mcp.results import fenced, result
from reflexarc.playbook.words import Stage
from reflexarc.runs.artifacts import picture
from reflexarc.runs.describe import describe_run
from reflexarc.runs.granting import GrantBook
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger, require_held
from reflexarc.runs.ownership import is_driven
from reflexarc.runs.replies import Reply, record_reply
from reflexarc.runs.run import Run, abort
from reflexarc.runs.session import Session

BY = "agent mcp"
POLL = 0.1
MAX_WAIT = 600.0
MAX_TEXT = 2_000
Playbook = str | Mapping[str, object]
Begin = Callable[[Session], Awaitable[Run]]
Said = Callable[[str], Awaitable[None]]


class Runs:
    """The runs that this server drives; others go on with them after it is gone."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._rehearsed: set[str] = set()

    async def start(self, machine: str, playbook: Playbook, variables: Mapping[str, object]) -> str:
        """Begin a run and return its id; it goes on by itself until it has ended or is held.

        Raises SafetyError where agents may only look at the machine: a run holds it up for others.
        """
        given: Path | str | Mapping[str, object] = playbook
        if isinstance(playbook, str) and "\n" not in playbook:
            given = find(playbook, self._hub.inventory())
        entry = self._hub.entry(machine)
        check_readable(entry)
        named = given.get("name") if isinstance(given, Mapping) else given
        guard(entry, dry_run=self._hub.dry_run).check_run("run.begin", playbook=str(named))

        async def begin(session: Session) -> Run:
            return await session.begin(given, variables=variables, by=BY)

        run_id = await self._drive(entry, begin)
        if self._hub.dry_run:
            self._rehearsed.add(run_id)
        return run_id

    async def reply(self, run_id: str, escalation_id: int, reply: Reply) -> None:
        """Answer a held run, and go on with it where no process drives it; resume goes on with an interrupted one.

        Raises RunError for a stale answer, PlaybookError for a bad one, SafetyError for one that agents may not give.
        """
        with closing(Journal(places().journal)) as journal:
            run, entry = found(journal, run_id)
            run_id = run.run_id
            self._check_touched(entry, run_id, "run.reply")
            guard(entry, dry_run=self._hub.dry_run).check_run("run.reply", run=run_id, reply=reply.kind)
            ledger = Ledger.open(journal, run_id)
            if ledger.state.stage is Stage.HELD and run_id in self._driven:
                await asyncio.wait([self._driven[run_id]])
            stands = ledger.state.stage in (Stage.HELD, Stage.ENDED) or is_driven(places().runs, run_id)
            left: Record | None = given_already
            if stands or reply.kind != "resume":
                require_held(ledger.state, escalation_id)

                def record(ledger: Ledger) -> None:
                    record_reply(ledger, reply, escalation_id=escalation_id, by=BY, book=GrantBook(places().grants),
                                 agent=entry.policy.agents)  # fmt: skip

                ends = ending(run, by=BY, dry_run=self._hub.dry_run) if reply.kind == "abort" else None
                left = await give(ledger, record, ends)
            if left is not None:
                await self._go_on(entry, run_id, left)

    def _check_touched(self, entry: Entry, run_id: str, operation: str) -> None:
        """Raise SafetyError for a run that agents may not read, or, in a dry run, that is none of this server's.

        Whoever drives another one would send in earnest what it is answered.
        """
        check_readable(entry)
        if self._hub.dry_run and run_id not in self._rehearsed:
            raise SafetyError(
                f"{entry.name}: dry run, {operation} was not sent: run {run_id} is none that this server began",
                rule="dry_run",
                operation=operation,
            )

    async def _go_on(self, entry: Entry, run_id: str, left: Record) -> None:
        async def begin(session: Session) -> Run:
            return taken_up(session, run_id, left)

        await self._drive(entry, begin)

    async def cancel(self, run_id: str, reason: str) -> None:
        """End a run that is held, interrupted, or driven by this server; raises RunError for another one."""
        with closing(Journal(places().journal)) as journal:
            run, entry = found(journal, run_id)
            self._check_touched(entry, run.run_id, "run.cancel")
            guard(entry, dry_run=self._hub.dry_run).check_run("run.cancel", run=run.run_id)
            driven = self._driven.get(run.run_id)
            if driven is not None:
                await self._stopped(driven)
            at_end = ending(run, by=BY, dry_run=self._hub.dry_run)
            await abort(journal, places().runs, run.run_id, reason, by=BY, at_end=at_end)

    async def wait(self, run_id: str, timeout: float, said: Said) -> None:
        """Return when the run is held, interrupted or has ended, at the latest after so many seconds."""
        if not 0 <= timeout <= MAX_WAIT:
            raise ConfigError(f"timeout is 0 to {MAX_WAIT:g} seconds")
        deadline = time.monotonic() + timeout
        told = ""
        with closing(Journal(places().journal)) as journal:
            run, entry = found(journal, run_id)
            run_id = run.run_id
            check_readable(entry)
            ledger = Ledger.open(journal, run_id)
            while time.monotonic() < deadline:
                ledger.catch_up()
                state = ledger.state
                if state.stage in (Stage.HELD, Stage.ENDED) or not is_driven(places().runs, run_id):
                    return
                if state.step.name != told:
                    told = state.step.name
                    await said(f"step {state.index + 1} of {len(state.playbook.steps)}: {told}")
                await asyncio.sleep(POLL)

    async def close(self) -> None:
        """Leave the runs that are under way: they are interrupted, and anybody can go on with them."""
        for task in list(self._tasks):
            await self._stopped(task)

    async def _stopped(self, task: asyncio.Task[None]) -> None:
        """Stop driving, where that isn't over; what closes its machine is left to do so."""
        if task not in self._leaving:
            task.cancel()
        await asyncio.wait([task])

    async def _drive(self, entry: Entry, begin: Begin) -> str:
        """Have a run driven in a task of its own, which no client's going away ends; return its id once it began."""
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._driving(entry, begin, begun))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._leaving.discard(task)
            error = None if task.cancelled() else task.exception()
            if begun.done() and not begun.exception() and self._driven.get(begun.result()) is task:
                del self._driven[begun.result()]
            if not begun.done():
                begun.set_exception(error or RunError("the server was stopped", run_id=""))
                begun.exception()
            elif error is not None:
                print(f"reflexarc mcp: run {begun.result()} is interrupted: {error}", file=sys.stderr)

        task.add_done_callback(ended)
        return await asyncio.shield(begun)

    async def _driving(self, entry: Entry, begin: Begin, begun: asyncio.Future[str]) -> None:
        task = asyncio.current_task()
        assert task is not None
        async with open_session(
            entry,
            agent=True,
            via="mcp",
            dry_run=self._hub.dry_run,
            holder="a run of an agent (MCP)",
            launch=self._hub.may_launch(entry),
            audit=auditing.write,
        ) as session:
            run = await begin(session)
            self._driven[run.id] = task
            try:
                begun.set_result(run.id)
                await run.drive()
            finally:
                self._leaving.add(task)
                run.release()


def status(run_id: str, *, image: bool = True) -> CallToolResult:
    """How a run stands, with its escalation and the frame of it where it is held; raises as `readable` does."""
    with closing(Journal(places().journal)) as journal:
        run_id = readable(journal, run_id)
        ledger, record = Ledger.open(journal, run_id), journal.read(run_id)
    state = ledger.state
    described = describe_run(state, record, owned=is_driven(places().runs, run_id))
    outcome = described["outcome"]
    values = {**described, "text_is_untrusted": True}
    step = f"step {state.index + 1} of {len(state.playbook.steps)}, {state.step.name}"
    words = [f"Run {run_id} ({state.playbook.name} on {state.machine}): {outcome} at {step}."]
    held = state.escalation if outcome == "held" else None
    if held is None:
        values["escalation"] = None
        if outcome == "interrupted":
            words.append("No process drives it: reply_escalation with resume goes on with it.")
        return result("\n".join([*words, fenced(state.reason)]).rstrip(), values)
    words.append(
        f"It asks (escalation {held.id}): {held.reason}. It awaited "
        f"{', '.join(held.expected) or 'a condition'} and sees {held.observed_phase}. Answer with reply_escalation."
    )
    words.append(fenced(f"{held.detail}\n{held.text[-MAX_TEXT:]}"))
    shown = picture(places().runs / run_id, held.frame.ref) if image and held.frame is not None else None
    return result("\n".join(words).rstrip(), values, *([shown] if shown is not None else []))
