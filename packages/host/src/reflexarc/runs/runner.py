"""The runner: does what the engine says has to be done next, and journals what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reflexarc.errors import MachineError, ReflexarcError, RunError, SafetyError, interrupting
from reflexarc.machine.guard import Permit
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.machine.machine import Machine
from reflexarc.observation import Observation
from reflexarc.playbook import engine, waiting
from reflexarc.playbook.events import (
    Acted,
    Counted,
    Event,
    FrameRef,
    Freezing,
    Froze,
    Intended,
    Looked,
    Lost,
    Observed,
    Resumed,
    Shown,
    Thawed,
    Verified,
)
from reflexarc.playbook.model import Step
from reflexarc.playbook.state import Outcome, RunState, Stage
from reflexarc.runs.artifacts import RunFolder, SerialLog
from reflexarc.runs.gallery import Gallery
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.performing import Performed, Performer
from reflexarc.runs.preflight import preflight, require
from reflexarc.runs.secrets import Redactor
from reflexarc.runs.seeking import seek
from reflexarc.runs.teaching import Pupil
from reflexarc.runs.video import Video
from reflexarc.sensing.watcher import Watcher

STILL, STILL_AT_MOST = 0.15, 0.6
MAX_OUTLINE = 16_000
# An unmoving machine is looked at again after this long even if no deadline is near.
LONGEST_WATCH = 5.0
# Reads are told at a step's end, yet not of every fast one.
COUNT_INTERVAL = 1.0

# Told of an event, and the states before and after it.
Listener = Callable[[Event, RunState, RunState], None]


@dataclass
class Runner:
    """Drives one run on one machine until it is held or has ended.

    secrets: the values by name. listener: told of every event that changed the run. host: the files of this host
    that its steps may name. phase_folder: where what the run is taught is kept for later ones.
    """

    ledger: Ledger
    machine: Machine
    watcher: Watcher
    folder: RunFolder
    secrets: Mapping[str, str]
    listener: Listener | None = None
    host: HostPaths = field(default_factory=HostPaths)
    phase_folder: Path | None = None
    _judged: tuple[int, Stage, int] | None = None
    _last: Observation | None = None
    _seeking: Step | None = None
    _hidden: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._redactor = Redactor(self.secrets.values())
        self._counted = Counter(self.watcher.reads)
        self._counted_at = time.monotonic()
        self._gallery = Gallery(self.folder.path)
        self._serial = SerialLog(self.folder.path)
        self.watcher.heard = self._serial.hear
        self._video = Video.of(self.folder.path, lambda seen: self._redactor.observation(seen)[1])
        self._performer = Performer(self.machine, self.watcher, self.secrets, self._store, self.host)
        self._pupil = Pupil(self.watcher, self.phase_folder, len(self.state.lessons))

    @property
    def state(self) -> RunState:
        return self.ledger.state

    async def drive(self) -> RunState:
        """Go on until the run is held or has ended, and return its state then.

        A machine that can't be reached holds the run. Raises JournalError when the journal can't be written
        and RunError when another process went on with the run; nothing more was sent then.
        """
        self._judged = None
        self._record_video(on=True)
        guard = self.machine.guard
        guard.fence = self.ledger.require_own
        try:
            with interrupting(self.state.run_id):
                state = await self._go_on()
            guard.fence = None
            return state
        finally:
            self._record_video(on=False)
            self._seeking = None
            self.watcher.seek({})
            if self.state.stage is Stage.ENDED:
                self._pupil.leave(self.state)
            self._gallery.finish()
            self._serial.write(self._redactor.text)

    def _record_video(self, *, on: bool) -> None:
        """Begin to record the screen, or end that; what happens while a run is held is not recorded."""
        if self._video is None:
            return
        if on:
            self._video.begin(time.monotonic())
            seen = self.watcher.latest
            frame = self.watcher.frame_of(seen) if seen is not None else None
            if seen is not None and frame is not None:
                self._video.note(seen, frame)
        else:
            self._video.finish(time.monotonic())
        self.watcher.shown = self._video.note if on else None

    async def _go_on(self) -> RunState:
        if self.state.stage is Stage.ACTING:
            # An earlier drive was cut off in the middle of an act.
            self._record(Resumed(time.monotonic()))
        while True:
            next_effect = engine.effect(self.state)
            if isinstance(next_effect, engine.Hold | engine.Finish):
                if await self._rest():
                    return self.state
                continue
            try:
                await self._do(next_effect)
            except MachineError as error:
                self._record(Lost(time.monotonic(), self._redactor.text(str(error))))

    async def _rest(self) -> bool:
        """Write what is left to write of a run that is held or has ended; False where it was answered meanwhile."""
        stage = self.state.stage
        try:
            await self._thaw_at_end()
            await self._show_hold()
            self._count()
        except RunError:
            if not self.ledger.catch_up():
                raise
        return self.state.stage is stage

    async def _do(self, next_effect: engine.Effect) -> None:
        self._pupil.learn(self.state)
        if self._seeking is not self.state.step:
            self._seeking = self.state.step
            seek(self.watcher, self.state)
        match next_effect:
            case engine.Verify():
                await self._verify()
            case engine.Look():
                seen = self._redacted(await self.watcher.fresh())
                effect = await self._performer.is_effective(self.state)
                self._record(Looked(time.monotonic(), seen, effect))
            case engine.Freeze():
                await self._freeze()
            case engine.Thaw():
                await self.machine.freeze.thaw()
                self._record(Thawed(time.monotonic()))
            case engine.Act():
                await self._act()
            case _:
                await self._watch()

    async def _freeze(self) -> None:
        """Freeze the machine for a hold; one that can't be, or stands still already, is left as it is."""
        error = ""
        try:
            if await self.machine.freeze.frozen():
                error = "it stood still already"
            else:
                self._record(Freezing(time.monotonic()))
                await self.machine.freeze.freeze()
        except (MachineError, SafetyError) as refusal:
            error = self._redactor.text(str(refusal))
        self._record(Froze(time.monotonic(), error))

    async def _thaw_at_end(self) -> None:
        """Let a machine go on whose run ended while it was held; one that is gone needs no letting go."""
        if self.state.stage is Stage.ENDED and self.state.is_frozen:
            with suppress(MachineError, SafetyError):
                await self.machine.freeze.thaw()
                self._record(Thawed(time.monotonic()))

    async def _verify(self) -> None:
        """Take a reading of its own; where nothing of the machine is awaited, after preflight."""
        if self.state.step.must_hold is None and self.state.failing is None:
            require(self.machine.name, await preflight(self.machine, ()))
        seen = self._redacted(await self.watcher.fresh(doubting=True))
        self._record(Verified(time.monotonic(), seen))

    async def _watch(self) -> None:
        """Judge what is seen now; where that was done before, wait for something newer or a deadline."""
        place = (self.state.index, self.state.stage, self.state.attempts)
        if self._judged != place:
            self._judged = place
            newest = await self._present()
        else:
            self._gallery.develop()
            now = time.monotonic()
            if self._video is not None:
                self._video.develop(now)
            limit = min(waiting.next_deadline(self.state, self._last, now), now + LONGEST_WATCH)
            later = await self.watcher.next(self._last, max(0.0, limit - now))
            newest = later or self._last or await self._present()
        self._last = newest
        seen = self._redacted(newest)
        self._record(Observed(time.monotonic(), seen))

    async def _present(self) -> Observation:
        """What is seen now; only evidence from after the last act counts, and a still screen pushes none."""
        latest = self.watcher.latest
        if latest is not None and latest.at > self.state.sent_at:
            return latest
        return await self.watcher.fresh()

    async def _act(self) -> None:
        step = self.state.step
        latest = self.watcher.latest
        intended = Intended(time.monotonic(), latest.serial_end if latest is not None else 0)
        if not self._record(intended) or self.state.stage is not Stage.ACTING:
            return
        with self.machine.guard.acting_for(self._redactor.text, run=self.state.run_id, step=step.name):
            if step.authorisation is None:
                self._after(await self._performer.perform(self.state))
            elif (seen := await self._last_look()) is not None:
                self._after(await self._perform_authorised(step.authorisation, seen))

    async def _last_look(self) -> Observation | None:
        """What shows once the intent is on the disk, which takes a while; None where the act no longer stands."""
        try:
            seen = self._redacted(await self.watcher.fresh(doubting=True))
        except MachineError as error:
            self._after(Performed("failed", f"nothing was sent: {error}"))
            return None
        self._record(Verified(time.monotonic(), seen))
        return seen if self.state.stage is Stage.ACTING else None

    async def _perform_authorised(self, operation: str, evidence: Observation) -> Performed:
        """Perform the step on the permit that its verified precondition gives."""
        step, guard = self.state.step, self.machine.guard
        shown = f"{evidence.phase} ({evidence.origin or evidence.rung} {evidence.confidence:.2f})"
        reason = f"granted to run {self.state.run_id}"
        with guard.permit(Permit(operation, evidence.oldest, reason, shown)):
            if operation != step.operation:
                try:
                    guard.check(operation, action=step.action)
                except ReflexarcError as error:
                    return Performed("failed", str(error))
            return await self._performer.perform(self.state)

    def _after(self, performed: Performed) -> None:
        self._record(
            Acted(
                at=time.monotonic(),
                delivery=performed.delivery,
                error=self._redactor.text(performed.error),
                sent=performed.sent,
                fatal=performed.fatal,
                pressed_at=performed.pressed_at,
                result=self._redactor.data(performed.result),
            )
        )

    def _record(self, event: Event) -> bool:
        before = self.state
        if not self.ledger.record(event):
            return False
        self._picture(event, before)
        left = self.state.index != before.index and self.state.stage not in (Stage.HELD, Stage.ENDED)
        if left and event.at >= self._counted_at + COUNT_INTERVAL:
            self._count()
        if self.listener is not None:
            self.listener(event, before, self.state)
        return True

    def _picture(self, event: Event, before: RunState) -> None:
        """Have the frame kept in which a phase was entered, a wait ended or the run failed; none with a secret."""
        seen, state = None, self.state
        if isinstance(event, Observed | Verified | Looked):
            if state.phase != before.phase or state.seen is event.observation:
                seen = event.observation
        elif state.outcome is Outcome.FAILED and self.watcher.latest is not None:
            seen = self._redacted(self.watcher.latest)
        frame = self.watcher.frame_of(seen) if seen is not None else None
        if frame is not None and frame.number not in self._hidden:
            self._gallery.note(event.at, frame)

    def _count(self) -> None:
        reads = Counter(self.watcher.reads)
        new = reads - self._counted
        self._counted_at = time.monotonic()
        if new:
            self._counted = reads
            self.ledger.note(Counted(time.monotonic(), dict(new)))

    def _redacted(self, seen: Observation) -> Observation:
        clean, hidden = self._redactor.observation(seen)
        if hidden and seen.frame is not None:
            self._hidden.add(seen.frame)
        return clean

    def _store(self, seen: Observation) -> str:
        """Keep the frame of an observation; a frame in which a secret is read is not kept."""
        self._redacted(seen)
        frame = self.watcher.frame_of(seen)
        if frame is None or seen.frame in self._hidden:
            return ""
        return self.folder.store(frame)

    async def _show_hold(self) -> None:
        """Add to a new escalation what the machine shows, once that stands still or a moment has passed.

        A frame that was judged in the middle of a change can be half drawn.
        """
        held = self.state.escalation
        if held is None or held.frame is not None:
            return
        try:
            await self.watcher.still(STILL, at_most=STILL_AT_MOST)
            seen = await self.watcher.fresh()
        except MachineError:
            return
        clean = self._redacted(seen)
        read = await self.watcher.outline(MAX_OUTLINE)
        outline = self._redactor.text(read)
        frame = self.watcher.frame_of(seen)
        if outline != read and frame is not None:
            # The tree tells what no reader sees in a picture.
            self._hidden.add(frame.number)
            self._gallery.forget(frame)
        ref = self._store(seen)
        kept = FrameRef(ref, frame.width, frame.height) if frame is not None and ref else None
        self._record(Shown(time.monotonic(), clean.text, kept, outline))
