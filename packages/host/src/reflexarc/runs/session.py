"""A session: one open machine with its senses, direct control, and runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from reflexarc.errors import (
    OffScriptError,
    OperationTimeoutError,
    PlaybookError,
    RunError,
    SafetyError,
    interrupting,
)
from reflexarc.machine.elements import Elements
from reflexarc.machine.frame import Frame
from reflexarc.machine.guarded import (
    GuardedBoot,
    GuardedConsole,
    GuardedFreeze,
    GuardedMedia,
    GuardedPower,
    GuardedScreen,
    GuardedSnapshot,
)
from reflexarc.machine.guest import GuardedAccessibility, GuardedApps, GuardedFiles, GuardedShell
from reflexarc.machine.hostpaths import HostPaths, settled
from reflexarc.machine.keyboard import GuardedKeyboard
from reflexarc.machine.lock import MachineLock
from reflexarc.machine.machine import Machine
from reflexarc.machine.pointer import GuardedPointer
from reflexarc.observation import Observation, Phases
from reflexarc.playbook import engine, stepping, waiting
from reflexarc.playbook.events import Lost, Observed, Started, Touched
from reflexarc.playbook.loader import load_data, load_file, load_text
from reflexarc.playbook.model import Playbook
from reflexarc.playbook.state import Reason, RunState, Stage
from reflexarc.runs import secrets
from reflexarc.runs.artifacts import RunFolder
from reflexarc.runs.granting import GrantBook, MachineGrants
from reflexarc.runs.hostfiles import misplaced
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.ownership import run_lock
from reflexarc.runs.preflight import preflight, require
from reflexarc.runs.replies import check_grant, check_variables
from reflexarc.runs.run import Run
from reflexarc.runs.runner import Listener, Runner
from reflexarc.runs.seeking import seek
from reflexarc.runs.teaching import is_agent
from reflexarc.runs.video import want
from reflexarc.sensing.watcher import Watcher


@dataclass
class Session:
    """One machine, open: `power`, `screen`, `keyboard` and `console` act on it, behind its guard.

    runs: the folder of runs. place: what tells the machine from others of its name. drivers: what the machine is
    reached by. host: the files of this host that playbooks may name. phase_folder: of the user's own phases, where
    what runs are taught is kept; None to keep nothing. book: where grants are that a person gave in advance.
    at_end: called with the id of a run of this machine that has ended; at_begin: of one that begins or goes on.
    replaced: says of a run, in words, that its machine is another one than it was left on; None where it isn't.
    """

    machine: Machine
    watcher: Watcher
    journal: Journal
    phases: Phases
    runs: Path
    lock: MachineLock
    at_end: Callable[[str], Awaitable[None]]
    at_begin: Callable[[str], None]
    place: str = ""
    drivers: tuple[str, ...] = ()
    host: HostPaths = field(default_factory=HostPaths)
    phase_folder: Path | None = None
    book: GrantBook | None = None
    replaced: Callable[[str], str | None] = lambda run_id: None
    _sends: int = 0
    _sent_at: float = field(default=float("-inf"))
    _seen: Observation | None = None

    def __post_init__(self) -> None:
        self.machine.guard.before_sending = self._before_sending
        self.machine.guard.preflight = self._preflight
        if self.book is not None:
            self.machine.guard.grants = MachineGrants(self.book, self.place)

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def power(self) -> GuardedPower:
        return self.machine.power

    @property
    def screen(self) -> GuardedScreen:
        return self.machine.screen

    @property
    def keyboard(self) -> GuardedKeyboard:
        return self.machine.keyboard

    @property
    def console(self) -> GuardedConsole:
        return self.machine.console

    @property
    def pointer(self) -> GuardedPointer:
        return self.machine.pointer

    @property
    def media(self) -> GuardedMedia:
        return self.machine.media

    @property
    def boot(self) -> GuardedBoot:
        return self.machine.boot

    @property
    def snapshot(self) -> GuardedSnapshot:
        return self.machine.snapshot

    @property
    def freeze(self) -> GuardedFreeze:
        return self.machine.freeze

    @property
    def shell(self) -> GuardedShell:
        return self.machine.shell

    @property
    def files(self) -> GuardedFiles:
        return self.machine.files

    @property
    def apps(self) -> GuardedApps:
        return self.machine.apps

    @property
    def accessibility(self) -> GuardedAccessibility:
        return self.machine.accessibility

    @property
    def ax(self) -> Elements:
        """The elements of its desktop by what they are: `m.ax.press(Selector(name="OK"))`."""
        return Elements(self.accessibility, self.name)

    async def observe(self) -> Observation:
        """Look at the machine now: a reading of its own, taken after the call."""
        return await self.watcher.fresh()

    def frame_of(self, observation: Observation) -> Frame | None:
        """The frame that a recent observation was read from."""
        return self.watcher.frame_of(observation)

    async def wait_for(
        self, condition: object, *, timeout: float | None = None, hold_for: float | None = None
    ) -> Observation:
        """Wait until a condition of the playbook language holds, by the same rules as a step does.

        condition: a phase, a list of phases (any of), or a mapping such as {"text": "login:"}. What the last
        wait saw only counts again after a change where something was sent in between.

        Raises OperationTimeoutError, and OffScriptError where the machine went elsewhere (a crash screen, a
        settled screen that nobody awaits).
        """
        if self.machine.guard.sends > self._sends:
            self._sends, self._sent_at = self.machine.guard.sends, time.monotonic()
        step = {"name": "wait_for", "wait_for": condition, "timeout": timeout, "hold_for": hold_for}
        now = time.monotonic()
        state = engine.start(self._started({"name": "wait_for", "steps": [step]}, now))
        acted = self._seen is not None and self._sent_at > self._seen.at
        state = stepping.enter(replace(state, sent_at=self._sent_at, seen=self._seen, acted=acted), 0, now)
        seek(self.watcher, state)
        seen = self.watcher.latest or await self.watcher.fresh()
        if seen.at <= self._sent_at:
            seen = await self.watcher.fresh()
        while True:
            now = time.monotonic()
            state = engine.advance(state, Observed(now, seen))
            if state.stage is not Stage.WAITING:
                return self._waited(state, seen)
            seen = await self.watcher.next(seen, waiting.next_deadline(state, seen, now) - now) or seen

    def _waited(self, state: RunState, seen: Observation) -> Observation:
        held = state.escalation
        if held is None:
            self._seen = seen
            return seen
        wanted = ", ".join(held.expected) or "the awaited condition"
        if held.reason is Reason.TIMEOUT:
            raise OperationTimeoutError(
                f"waited for {wanted} in vain; it shows {seen.phase}",
                machine=self.name,
                operation="wait_for",
            )
        remedy = "look at it before you go on"
        if seen.phase == "power_off":
            remedy = "it is off: switch it on first, with power.on()"
        raise OffScriptError(
            f"waited for {wanted}, and it shows {seen.phase} ({held.reason}); {remedy}",
            machine=self.name,
            reason=held.reason,
            phase=seen.phase,
        )

    def load(self, playbook: Path | str | Mapping[str, object]) -> Playbook:
        """Load a playbook from a path, YAML or JSON text (several lines) or plain data."""
        if isinstance(playbook, Path):
            return load_file(playbook, self.phases)
        if isinstance(playbook, str):
            is_text = "\n" in playbook
            return load_text(playbook, self.phases) if is_text else load_file(Path(playbook), self.phases)
        return load_data(playbook, self.phases)

    async def begin(
        self,
        playbook: Playbook | Path | str | Mapping[str, object],
        *,
        variables: Mapping[str, object] | None = None,
        secret_values: Mapping[str, str] | None = None,
        secret_references: Mapping[str, str] | None = None,
        grant: Sequence[str] = (),
        by: str = "api",
        max_escalations: int = 20,
        start_at: str | int = 0,
        listener: Listener | None = None,
        video: bool = False,
    ) -> Run:
        """Start a run: check everything, take the locks, write its start; `Run.drive` then goes on.

        variables: values by name. secret_values: secrets by name, kept in memory only; secret_references say
        where another process finds them again (`env:NAME`, `file:PATH`, `keyring:NAME`). grant: operation or class
        names that a person authorises. start_at: name or index of the step to begin with. video: whether what the
        screen shows is recorded, into `video.webp` of the run's folder.

        Raises PlaybookError, CapabilityError, MachineBusyError or SafetyError; nothing was sent then.
        """
        if not isinstance(playbook, Playbook):
            playbook = self.load(playbook)
        check_grant(grant)
        if grant and self.machine.guard.agent:
            raise SafetyError(
                f"{self.name}: an agent grants nothing; a person can, with `reflexarc grant` once the run is held",
                rule="agent_grant",
                operation=grant[0],
            )
        references = dict(secret_references or {})
        values = {name: secrets.resolve(name, ref) for name, ref in references.items()}
        for name, value in (secret_values or {}).items():
            values[name] = secrets.checked(name, value)
            references.setdefault(name, secrets.IN_MEMORY)
        given = _variables(playbook, variables or {}, values)
        if self.machine.guard.agent and not is_agent(by):
            by = f"agent {by}"
        typed = [] if self.machine.guard.agent else _typed(playbook, variables or {})
        for name, operation in typed:
            given[name] = settled(str(given[name]))
            self.host.check(operation, str(given[name]), typed=True)
        index = playbook.start_index(start_at)
        self.lock.acquire()
        try:
            self._refuse_second_run()
            require(self.name, await preflight(self.machine, playbook.needs_from(index)))
            self._require_files(playbook, given, [name for name, _ in typed], index)
            event = replace(
                self._started(playbook.source, time.monotonic(), _new_id()),
                variables=given,
                secrets=references,
                max_escalations=max_escalations,
                grant=tuple(grant),
                by=by,
                start_at=index,
                typed=tuple(f"{operation} {name}" for name, operation in typed),
            )
            return self._start(event, values, listener, video=video)
        except BaseException:
            self.lock.release()
            raise

    def _require_files(
        self, playbook: Playbook, given: Mapping[str, object], typed: Sequence[str], index: int
    ) -> None:
        """Raise SafetyError for a file of this host that a step is sure to need and can't use."""
        for found in misplaced(playbook, self.host, given, typed=typed, start_at=index):
            if found.sure:
                raise SafetyError(
                    f"{self.name}: step {found.step.name!r}: {found.error}",
                    rule=found.error.rule,
                    operation=found.error.operation,
                )

    def _refuse_second_run(self) -> None:
        """A run that is held or interrupted goes first: its machine is as it left it."""
        for run in self.journal.runs(place=self.place, open_only=True):
            stands = "held" if run.stage == Stage.HELD else "interrupted"
            raise RunError(
                f"{self.name}: run {run.run_id} ({run.playbook}) is {stands} on this machine; "
                f"`reflexarc runs {'reply' if stands == 'held' else 'resume'} {run.run_id}"
                f"{' resume' if stands == 'held' else ''}` goes on with it, "
                f"`reflexarc runs abort {run.run_id}` ends it",
                run_id=run.run_id,
            )

    def _start(
        self, event: Started, values: Mapping[str, str], listener: Listener | None, *, video: bool
    ) -> Run:
        run_id = event.run_id
        lock = run_lock(self.runs, run_id)
        lock.acquire()
        try:
            ledger = Ledger.begin(self.journal, event)
            with interrupting(run_id):
                self.at_begin(run_id)
        except BaseException:
            lock.release()
            raise
        if video:
            want(RunFolder(self.runs, run_id).path)
        return self._run(ledger, lock, values, listener)

    def take_up(
        self, run_id: str, *, secret_values: Mapping[str, str] | None = None, listener: Listener | None = None
    ) -> Run:
        """Go on with a run that no process drives, held or interrupted.

        One whose machine is gone, and another one in its place, is held anew with `connection_lost`.
        Raises RunError where it can't be, MachineBusyError where another process drives it.
        """
        lock = run_lock(self.runs, run_id)
        lock.acquire()
        try:
            ledger = Ledger.open(self.journal, run_id)
            if ledger.state.place != self.place:
                raise RunError(
                    f"run {run_id} belongs to a machine {ledger.state.machine} of another inventory; nothing was sent",
                    run_id=run_id,
                )
            given = dict(secret_values or {})
            values = {
                name: given[name] if name in given else secrets.resolve(name, reference)
                for name, reference in ledger.state.secrets.items()
            }
            with interrupting(run_id):
                ledger.take_up()
                if (why := self.replaced(run_id)) is not None:
                    ledger.record(Lost(time.monotonic(), why, gone=True))
                self.at_begin(run_id)
        except BaseException:
            lock.release()
            raise
        return self._run(ledger, lock, values, listener)

    def _run(
        self, ledger: Ledger, lock: MachineLock, values: Mapping[str, str], listener: Listener | None
    ) -> Run:
        folder = RunFolder(self.runs, ledger.state.run_id)
        runner = Runner(
            ledger, self.machine, self.watcher, folder, values, listener, self.host, self.phase_folder
        )
        return Run(runner, self.lock, lock, self.at_end, self.book)

    def _started(self, source: Mapping[str, object], at: float, run_id: str = "") -> Started:
        guard = self.machine.guard
        policy = guard.policy.agents if guard.agent else guard.policy.people
        return Started(
            at,
            run_id,
            self.name,
            source,
            tuple(self.phases.values()),
            policy=tuple(policy),
            place=self.place,
            drivers=self.drivers,
        )

    async def _preflight(self) -> None:
        require(self.name, await preflight(self.machine, ()))

    def _before_sending(self, operation: str) -> None:
        """Take the machine's lock; where it was free, tell the runs that are held on this machine."""
        if not self.lock.acquire():
            return
        for run in self.journal.runs(place=self.place, open_only=True):
            with suppress(RunError):
                Ledger.open(self.journal, run.run_id).record(
                    Touched(time.monotonic(), operation, "a direct command")
                )


def _typed(playbook: Playbook, given: Mapping[str, object]) -> list[tuple[str, str]]:
    """Variables that a person gave for a file of this host, each with an operation that it was given for."""
    used = playbook.host_variables
    return [(name, operation) for name in given for operation in sorted(used.get(name, ()))]


def _new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"


def _variables(
    playbook: Playbook, given: Mapping[str, object], secret_names: Mapping[str, str]
) -> dict[str, object]:
    """The values of the playbook's variables: what was given, over the defaults; never a secret."""
    for name in given:
        known = playbook.variables.get(name)
        if known is None:
            raise PlaybookError(
                f"the playbook {playbook.name!r} has no variable {name!r}; "
                f"it has {', '.join(playbook.variables) or 'none'}"
            )
        if known.secret:
            raise PlaybookError(
                f"{name!r} is a secret: give it with --secret {name}=env:VARIABLE, never with --var"
            )
    check_variables(playbook, {*given, *secret_names})
    defaults = {v.name: v.default for v in playbook.variables.values() if not v.secret}
    return {name: value for name, value in {**defaults, **given}.items() if value is not None}
