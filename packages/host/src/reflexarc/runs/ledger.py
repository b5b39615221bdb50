"""One run in the journal: its state, and the only way to advance it."""

from __future__ import annotations

import time
from dataclasses import replace

from reflexarc.errors import PlaybookError, RunError
from reflexarc.playbook import engine
from reflexarc.playbook.events import Doubted, Event, Intended, Observed, Resumed, Started
from reflexarc.playbook.state import RunState, Stage
from reflexarc.runs.journal import Journal


class Ledger:
    """The state of one run and its next event number.

    Writing is append-before-believe: the state here never runs ahead of the journal. Whoever else appended in
    between wins; `record` then raises RunError and nothing was written.
    """

    def __init__(self, journal: Journal, state: RunState, number: int) -> None:
        self.journal = journal
        self.state = state
        self._number = number

    @classmethod
    def begin(cls, journal: Journal, event: Started) -> Ledger:
        """Write the start of a new run."""
        state = engine.start(event)
        journal.append(0, event, state)
        return cls(journal, state, 1)

    @classmethod
    def open(cls, journal: Journal, run_id: str) -> Ledger:
        """Take a run from the journal as it stands; raises RunError for an unknown or unreadable one."""
        record = journal.read(run_id)
        if not record.events or not isinstance(record.events[0], Started):
            raise RunError(f"run {run_id}: its start can't be read ({record.damage})", run_id=run_id)
        try:
            return cls(journal, engine.fold(record.events), len(record.events))
        except PlaybookError as error:
            raise RunError(
                f"run {run_id}: its playbook can't be read any more: {error}", run_id=run_id
            ) from error

    def record(self, event: Event) -> bool:
        """Advance by the event and journal it; False, and nothing written, where it changes nothing."""
        after = engine.advance(self.state, event)
        if after == self.state:
            return False
        event = self._thinned(event, after)
        destructive = isinstance(event, Intended) and self.state.step.authorisation is not None
        self.journal.append(self._number, event, after, durable=destructive)
        self._number += 1
        self.state = after
        return True

    def _thinned(self, event: Event, after: RunState) -> Event:
        """The event without those texts of machines that the state after it doesn't hang on; a run sees thousands."""
        if isinstance(event, Observed) and after.seen is not event.observation:
            bare = replace(event, observation=replace(event.observation, screen=None, serial=""))
            quiet = replace(event, observation=replace(event.observation, serial=""))
            for thinner in (bare, quiet):
                if engine.advance(self.state, thinner) == after:
                    return thinner
        return event

    def require_own(self) -> None:
        """Raise RunError where another process has gone on with the run; nothing may be sent then."""
        if self.journal.has(self.state.run_id, self._number):
            raise RunError(
                f"run {self.state.run_id}: another process went on with it; nothing more is sent from here",
                run_id=self.state.run_id,
            )

    def note(self, event: Event) -> None:
        """Journal an event that tells something and changes nothing."""
        self.journal.append(self._number, event, self.state, changed=False)
        self._number += 1

    def catch_up(self) -> bool:
        """Take in what other processes appended; tell whether there was anything."""
        if self.journal.count(self.state.run_id) <= self._number:
            return False
        events = self.journal.read(self.state.run_id).events
        for event in events[self._number :]:
            self.state = engine.advance(self.state, event)
        self._number = len(events)
        return True

    def take_up(self) -> None:
        """Go on with a run that no process drives: clocks start anew, an act under way is in doubt.

        A damaged end of the journal is set aside, and the run asks, since what it did last can't be told.
        """
        now = time.monotonic()
        damage = self.journal.read(self.state.run_id).damage
        if damage is not None:
            self.journal.set_aside(self.state.run_id, self._number)
        self.record(Resumed(now))
        if damage is not None and self.state.stage is not Stage.ENDED:
            self.record(Doubted(now, f"the end of the journal is damaged: {damage}"))


def require_held(state: RunState, escalation_id: int | None) -> int:
    """The id of the open escalation; raises RunError where there is none or another one is meant."""
    held = state.escalation
    if state.stage is not Stage.HELD or held is None:
        what = f"has ended ({state.outcome})" if state.outcome else "is not held"
        raise RunError(f"run {state.run_id} {what}; there is nothing to reply to", run_id=state.run_id)
    if escalation_id is not None and escalation_id != held.id:
        raise RunError(
            f"run {state.run_id} asks escalation {held.id}, not {escalation_id}; the reply is stale",
            run_id=state.run_id,
        )
    return held.id
