"""A run as a person watches it: one line a finished step, and on a terminal what it is doing now."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text

from reflexarc.cli.text import is_terminal, one_line
from reflexarc.observation import UNKNOWN, Observation
from reflexarc.playbook.events import Acted, Event, Observed, Replied, Verified
from reflexarc.playbook.state import Outcome, RunState


class View(Protocol):
    """Where a run's events are shown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, event: Event, before: RunState, state: RunState) -> None: ...


def view(*, label: str = "") -> View:
    """A live view on a terminal, plain lines elsewhere; both write to standard error."""
    return LiveView(label) if is_terminal(sys.stderr) else PlainView(label)


class _Steps:
    """Notices when a step is finished and says so in one line: seconds, name, what was seen, what was done."""

    def __init__(self, label: str) -> None:
        self.label = f"{label}: " if label else ""
        self._began = time.monotonic()
        self._seen = ""
        self._note = ""

    def line(self, event: Event, before: RunState, state: RunState) -> str | None:
        """The line for the event, None where it finishes nothing."""
        if isinstance(event, Observed | Verified):
            self._seen = _seen(event.observation)
        if isinstance(event, Acted) and "text" in event.result:
            self._note = str(event.result["text"])
        if isinstance(event, Replied):
            return f"{self.label}answered: {event.kind}"
        if state.index == before.index and state.outcome is not Outcome.SUCCEEDED:
            return None
        return self._finished(before)

    def _finished(self, state: RunState) -> str:
        width = min(40, max(len(step.name) for step in state.playbook.steps))
        seconds = time.monotonic() - self._began
        self._began = time.monotonic()
        action = state.step.action or "seen"
        done = f"{action} ({self._note})" if self._note else action
        self._note = ""
        name = one_line(state.step.name)
        return f"{self.label}{seconds:7.2f} s  {name:<{width}}  {self._seen:<26}  {one_line(done)}"


def _seen(seen: Observation) -> str:
    if seen.phase == UNKNOWN:
        return "text" if seen.text else UNKNOWN
    return f"{seen.phase} ({seen.origin or seen.rung} {seen.confidence:.2f})"


class PlainView:
    """Plain lines, for logs and pipes."""

    def __init__(self, label: str) -> None:
        self._steps = _Steps(label)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, event: Event, before: RunState, state: RunState) -> None:
        line = self._steps.line(event, before, state)
        if line is not None:
            with suppress(OSError):
                print(line, file=sys.stderr, flush=True)


class LiveView:
    """Finished steps above, a spinner with the present step and what is seen below."""

    def __init__(self, label: str) -> None:
        self._steps = _Steps(label)
        self._console = Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots", "starting", style="cyan")
        self._live = Live(self._spinner, console=self._console, refresh_per_second=12, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event, before: RunState, state: RunState) -> None:
        line = self._steps.line(event, before, state)
        if line is not None:
            self._live.console.print(f"[green]✓[/] {escape(line)}")
        self._spinner.update(text=Text.from_markup(_now(state)))


def _now(state: RunState) -> str:
    step = state.step
    total = len(state.playbook.steps)
    seen = f" · sees [bold]{escape(state.phase)}[/]" if state.phase else ""
    return f"{state.index + 1}/{total} {escape(one_line(step.name))} · {state.stage}{seen}"
