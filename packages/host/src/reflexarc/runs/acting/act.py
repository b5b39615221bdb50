"""One act: the step that is performed, and all that its performance may use."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reflexarc.errors import PlaybookError
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.machine.machine import Machine
from reflexarc.observation import Observation
from reflexarc.playbook.state import RunState
from reflexarc.playbook.template import names_in, render, sole_name
from reflexarc.sensing.watcher import Watcher


@dataclass(frozen=True)
class Performed:
    """What became of an act; the fields are as in the event `Acted`."""

    delivery: str = "delivered"
    error: str = ""
    sent: bool = False
    fatal: bool = False
    pressed_at: float | None = None
    result: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Act:
    """The present step of a run, on its machine. store: keeps the present frame and returns its name."""

    state: RunState
    machine: Machine
    watcher: Watcher
    secrets: Mapping[str, str]
    store: Callable[[Observation], str]
    host: HostPaths

    @property
    def args(self) -> Mapping[str, object]:
        return self.state.step.args

    def whole(self, name: str) -> int:
        """An argument that is a whole number, 0 where it is none."""
        value = self.args.get(name)
        return value if isinstance(value, int) else 0

    def seconds(self, name: str) -> float:
        """An argument that is a number of seconds."""
        value = self.args.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def text(self, name: str) -> str:
        """An argument with its names looked up; raises PlaybookError where one has no value or may not stand there."""
        return self._looked_up(name, str(self.args.get(name) or ""))

    def texts(self, name: str) -> tuple[str, ...]:
        """An argument that is a list of texts."""
        items = self.args.get(name)
        return (
            tuple(self._looked_up(name, str(item)) for item in items)
            if isinstance(items, list | tuple)
            else ()
        )

    def mapping(self, name: str) -> dict[str, str]:
        """An argument that maps names to texts."""
        items = self.args.get(name)
        pairs = items.items() if isinstance(items, Mapping) else ()
        return {str(key): self._looked_up(name, str(text)) for key, text in pairs}

    def rendered(self, template: str, *, shown: bool = False) -> str:
        """Look up variables, results and secrets; where the text is to be shown, secrets are masked."""
        secrets = dict.fromkeys(self.secrets, "********") if shown else self.secrets
        return render(template, {**self.state.scope, **secrets})

    def typed(self, name: str) -> bool:
        """Tell whether an argument is wholly what a person gave for just this: a file for this operation."""
        wholly = sole_name(str(self.args.get(name) or ""))
        return f"{self.state.step.operation} {wholly}" in self.state.typed

    def roots(self, template: str) -> set[str]:
        """The variables, results and secrets that a text looks up."""
        return {name.split(".", 1)[0] for name in names_in(template)}

    def holds_results(self, template: str) -> bool:
        """Tell whether a text looks up something that came from the machine."""
        return bool(self.roots(template) & set(self.state.registered))

    def _looked_up(self, name: str, template: str) -> str:
        step = self.state.step
        trusted = step.spec is not None and name in step.spec.arguments and step.spec.arguments[name].trusted
        if trusted and self.holds_results(template):
            raise PlaybookError(f"{name} looks up a value that came from the machine; nothing was sent")
        return self.rendered(template)


def has_controls(text: str) -> bool:
    """Tell whether a text holds control characters, or characters that hide or turn what is written."""
    return any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in text)
