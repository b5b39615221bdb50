"""A run in the hands of a process: locks, driving, replies, and what happens at its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from reflexarc.errors import RunError
from reflexarc.machine.lock import MachineLock
from reflexarc.playbook.events import Aborted
from reflexarc.playbook.state import Escalation, RunState, Stage
from reflexarc.runs.describe import describe_run
from reflexarc.runs.granting import GrantBook
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.ownership import is_driven
from reflexarc.runs.replies import Reply, record_reply
from reflexarc.runs.runner import Runner
from reflexarc.runs.teaching import is_agent

Answer = Callable[[Escalation], Awaitable[Reply]]
AtEnd = Callable[[str], Awaitable[None]]

REPLY_POLL = 0.1


@dataclass
class Run:
    """One run that this process drives.

    machine_lock is held while the run advances and given back while it is held, so that others may act on the
    machine meanwhile; run_lock is held throughout. book: where grants are that a person gave in advance.
    """

    runner: Runner
    machine_lock: MachineLock
    run_lock: MachineLock
    at_end: AtEnd
    book: GrantBook | None = None

    @property
    def state(self) -> RunState:
        return self.runner.state

    @property
    def id(self) -> str:
        return self.state.run_id

    @property
    def escalation(self) -> Escalation | None:
        """What the run asks, None where it isn't held."""
        return self.state.escalation if self.state.stage is Stage.HELD else None

    async def drive(self, answer: Answer | None = None) -> RunState:
        """Go on until the run has ended or is held; with `answer`, each escalation is answered by it.

        An answer that is no good raises PlaybookError and leaves the run held.
        """
        while True:
            await self._advance()
            held = self.escalation
            if held is None or answer is None:
                return self.state
            self.reply(await answer(held))

    async def _advance(self) -> None:
        self.runner.ledger.catch_up()
        left_frozen = self.state.stage is Stage.ENDED and self.state.is_frozen
        if self.state.stage not in (Stage.HELD, Stage.ENDED) or left_frozen:
            self.machine_lock.acquire()
            try:
                await self.runner.drive()
            finally:
                self.machine_lock.release()
        if self.state.stage is Stage.ENDED:
            await self.at_end(self.id)

    def reply(self, reply: Reply, *, escalation_id: int | None = None, by: str = "api") -> None:
        """Journal a reply to the open escalation; `drive` then goes on. by: who answers; `agent` for an agent."""
        guard = self.runner.machine.guard
        if guard.agent and not is_agent(by):
            by = f"agent {by}"
        record_reply(
            self.runner.ledger,
            reply,
            escalation_id=escalation_id,
            by=by,
            book=self.book,
            agent=guard.policy.agents if guard.agent else None,
        )

    async def wait_for_reply(self) -> None:
        """Return when somebody, in whatever process, has answered the open escalation."""
        while self.escalation is not None:
            await asyncio.sleep(REPLY_POLL)
            self.runner.ledger.catch_up()

    def describe(self) -> dict[str, object]:
        """The run as JSON."""
        ledger = self.runner.ledger
        return describe_run(self.state, ledger.journal.read(self.id), owned=True)

    def release(self) -> None:
        """Let the locks go; the run stays as its journal says."""
        self.machine_lock.release()
        self.run_lock.release()


async def abort(
    journal: Journal,
    runs: Path,
    run_id: str,
    reason: str,
    *,
    by: str,
    at_end: AtEnd,
) -> None:
    """End a run that is held or interrupted; raises RunError for one that advances or has ended."""
    try:
        ledger = Ledger.open(journal, run_id)
    except RunError:
        # It can't be read, and must not block its machine for ever.
        journal.find(run_id)
        journal.give_up(run_id, reason)
        await at_end(run_id)
        return
    if ledger.state.stage is Stage.ENDED:
        raise RunError(f"run {run_id} has ended ({ledger.state.outcome})", run_id=run_id)
    if ledger.state.stage is not Stage.HELD and is_driven(runs, run_id):
        raise RunError(f"run {run_id} advances in another process; interrupt that one first", run_id=run_id)
    damage = journal.read(run_id).damage
    if damage is not None:
        ledger.take_up()
    ledger.record(Aborted(time.monotonic(), reason, by))
    await at_end(run_id)
