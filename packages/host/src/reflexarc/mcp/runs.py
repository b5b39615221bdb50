"""The tools on runs: begun, watched, answered and ended by agents. All that they are stands in the journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from mcp_types import CallToolResult

from reflexarc.errors import ConfigError, ReflexarcError, RunError
from reflexarc.inventory.opening import end_of_run, entry_of_run, open_session
from reflexarc.inventory.places import places
from reflexarc.mcp.hub import Hub
from reflexarc.mcp.playbooks import find
from reflexarc.mcp.results import fenced, result
from reflexarc.playbook.words import Stage
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
MAX_PICTURE = 8 << 20
Playbook = str | Mapping[str, object]
Begin = Callable[[Session], Awaitable[Run]]
Said = Callable[[str], Awaitable[None]]


class Runs:
    """The runs that this server drives; others go on with them after it is gone."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, machine: str, playbook: Playbook, variables: Mapping[str, object]) -> str:
        """Begin a run and return its id; it goes on by itself until it has ended or is held."""

        given: Path | str | Mapping[str, object] = playbook
        if isinstance(playbook, str) and "\n" not in playbook:
            given = find(playbook, self._hub.inventory())

        async def begin(session: Session) -> Run:
            return await session.begin(given, variables=variables, by=BY)

        return await self._drive(machine, begin)

    async def reply(self, run_id: str, escalation_id: int, reply: Reply) -> None:
        """Answer a held run, and go on with it where no process drives it; raises RunError, PlaybookError."""
        with closing(Journal(places().journal)) as journal:
            run_id = journal.find(run_id)
            ledger = Ledger.open(journal, run_id)
            require_held(ledger.state, escalation_id)
            machine = ledger.state.machine
            entry = await asyncio.to_thread(entry_of_run, run_id, machine, None)
            if is_driven(places().runs, run_id):
                record_reply(ledger, reply, escalation_id=escalation_id, by=BY, book=GrantBook(places().grants),
                             agent=entry.policy.agents)  # fmt: skip
                return

        async def begin(session: Session) -> Run:
            run = session.take_up(run_id)
            try:
                session.lock.acquire()
                run.reply(reply, escalation_id=escalation_id, by=BY)
            except BaseException:
                run.release()
                raise
            return run

        await self._drive(machine, begin, run_id=run_id)

    async def resume(self, run_id: str) -> None:
        """Go on with a run that was interrupted; raises RunError where it is held, has ended or is driven."""
        with closing(Journal(places().journal)) as journal:
            run_id = journal.find(run_id)
            state = Ledger.open(journal, run_id).state
            if state.stage in (Stage.HELD, Stage.ENDED) or is_driven(places().runs, run_id):
                raise RunError(f"run {run_id} is not interrupted; look at it with run_status", run_id=run_id)

        async def begin(session: Session) -> Run:
            return session.take_up(run_id)

        await self._drive(state.machine, begin, run_id=run_id)

    async def cancel(self, run_id: str, reason: str) -> None:
        """End a run that is held, interrupted, or driven by this server; raises RunError for another one."""
        with closing(Journal(places().journal)) as journal:
            run_id = journal.find(run_id)
            state = Ledger.open(journal, run_id).state
            entry = await asyncio.to_thread(entry_of_run, run_id, state.machine, None)
            driven = self._driven.get(run_id)
            if driven is not None:
                driven.cancel()
                with suppress(asyncio.CancelledError):
                    await driven

            async def at_end(ended: str) -> None:
                await end_of_run(entry, ended)

            await abort(journal, places().runs, run_id, reason, by=BY, at_end=at_end)

    async def wait(self, run_id: str, timeout: float, said: Said) -> None:
        """Return when the run is held, interrupted or has ended, at the latest after so many seconds."""
        if not 0 <= timeout <= MAX_WAIT:
            raise ConfigError(f"timeout is 0 to {MAX_WAIT:g} seconds")
        deadline = time.monotonic() + timeout
        told = ""
        with closing(Journal(places().journal)) as journal:
            run_id = journal.find(run_id)
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
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _drive(self, machine: str, begin: Begin, *, run_id: str = "") -> str:
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._driving(machine, begin, begun, run_id))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not begun.done():
                begun.cancel()

        task.add_done_callback(ended)
        return await asyncio.shield(begun)

    async def _driving(self, machine: str, begin: Begin, begun: asyncio.Future[str], run_id: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        entry = self._hub.entry(machine)
        try:
            if run_id:
                entry = await asyncio.to_thread(entry_of_run, run_id, machine, None)
            async with open_session(
                entry, agent=True, dry_run=self._hub.dry_run, holder="a run of an agent (MCP)"
            ) as session:
                run = await begin(session)
                self._driven[run.id] = task
                try:
                    begun.set_result(run.id)
                    await run.drive()
                finally:
                    del self._driven[run.id]
                    run.release()
        except ReflexarcError as error:
            if not begun.done():
                begun.set_exception(error)


def status(run_id: str, *, image: bool = True) -> CallToolResult:
    """How a run stands, with its escalation and the frame of it where it is held."""
    with closing(Journal(places().journal)) as journal:
        run_id = journal.find(run_id)
        ledger, record = Ledger.open(journal, run_id), journal.read(run_id)
    described = describe_run(ledger.state, record, owned=is_driven(places().runs, run_id))
    held = described["escalation"] if described["outcome"] == "held" else None
    described["escalation"] = held
    described["text_is_untrusted"] = True
    steps = len(ledger.state.playbook.steps)
    words = [f"Run {run_id} ({described['playbook']} on {described['machine']}): {described['outcome']}"]
    words.append(
        f"at step {ledger.state.index + 1} of {steps}, {described['step_name']}. {described['reason']}".rstrip()
    )
    pictures = []
    escalation = ledger.state.escalation
    if held is not None and escalation is not None:
        words.append(
            f"It asks (escalation {escalation.id}): {escalation.reason}. {escalation.detail} It awaited "
            f"{', '.join(escalation.expected) or 'a condition'} and sees {escalation.observed_phase}. "
            "Answer with reply_escalation."
        )
        words.append(fenced(escalation.text[-2_000:]))
        if image and escalation.frame is not None:
            with suppress(OSError):
                path = places().runs / run_id / escalation.frame.ref
                if path.stat().st_size <= MAX_PICTURE:
                    pictures.append(path.read_bytes())
    return result("\n".join(word for word in words if word), described, *pictures)
