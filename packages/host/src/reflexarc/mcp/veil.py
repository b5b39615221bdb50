"""What direct readings don't tell while a run that was given a secret is open on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflexarc.errors import ConfigError, RunError, SafetyError

if TYPE_CHECKING:
    from reflexarc.machine.frame import Frame
    from reflexarc.observation import Observation
    from reflexarc.runs.secrets import Redactor
    from reflexarc.runs.session import Session
    from reflexarc.sensing.recogniser import Recognisers

WITHHELD = (
    "(withheld: a run that was given a secret is open on this machine, and this server doesn't hold it)"
)
SHOWN = ("text", "outline", "new_text", "elements", "stdout", "stderr", "base64")
"""Values of a result that are of the machine's own making."""


@dataclass(frozen=True)
class Veil:
    """The secrets of the runs that are open on one machine; known: whether all of them are held here."""

    machine: str
    redactor: Redactor
    recognisers: Recognisers
    known: bool

    def hides(self, frame: Frame) -> bool:
        """Tell whether a secret is read on a frame, or could be."""
        from reflexarc.sensing.text import TextRung

        screen = TextRung(self.recognisers).page(frame)[1] if self.known else None
        return not self.known or (screen is not None and self.redactor.screen(screen) != screen)


_veil: ContextVar[Veil | None] = ContextVar("veil", default=None)


def draw(session: Session) -> None:
    """Have results of this call tell nothing of the secrets of runs that are open on a machine.

    It stays until the call's context ends: results are made after the machine was left.
    """
    references = dict[str, str]()
    for run in session.journal.runs(place=session.place, open_only=True):
        try:
            references |= session.journal.start(run.run_id).secrets
        except RunError:
            references[run.run_id] = ""
    if not references:
        _veil.set(None)
        return
    from reflexarc.runs.secrets import Redactor

    values, known = _resolved(references)
    _veil.set(Veil(session.name, Redactor(values), session.watcher.recognisers, known))


def is_drawn() -> bool:
    """Tell whether there are secrets that this call may come upon."""
    return _veil.get() is not None


def masked(text: str) -> str:
    """The text without the secrets that are known."""
    veil = _veil.get()
    return text if veil is None else veil.redactor.text(text)


def masked_bytes(data: bytes) -> bytes:
    """The data without the secrets that are known, where it has them as text; to be cut, or encoded, afterwards."""
    if _veil.get() is None:
        return data
    return masked(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def covered(seen: Observation) -> Observation:
    """The observation without them, also where the screen breaks one."""
    veil = _veil.get()
    return seen if veil is None else veil.redactor.observation(seen)[0]


def withheld() -> str:
    """What stands for text of the machine where it can't be masked, empty where it can."""
    veil = _veil.get()
    return WITHHELD if veil is not None and not veil.known else ""


def without(values: Mapping[str, object]) -> dict[str, object]:
    """Values of a result without the secrets that are known, or without text of the machine where not all are."""
    veil = _veil.get()
    if veil is None:
        return dict(values)
    stead = withheld()
    clean = veil.redactor.data(values)
    return {key: stead if stead and key in SHOWN else value for key, value in clean.items()}


def check_picture(frame: Frame) -> None:
    """Raise SafetyError where a picture of the frame would show a secret, or may."""
    veil = _veil.get()
    if veil is not None and veil.hides(frame):
        raise SafetyError(
            f"{veil.machine}: no picture: a run that was given a secret is open on it, and it shows, or isn't held by "
            "this server; run_status has the run's own picture, and a person can end it with `reflexarc runs abort`",
            rule="secret",
            operation="observe.frames",
        )


def _resolved(references: Mapping[str, str]) -> tuple[list[str], bool]:
    """The values that can be found again as they were given, and whether those are all."""
    from reflexarc.runs.secrets import resolve

    values: list[str] = []
    for name, reference in references.items():
        # An environment is each process's own, and a keyring may ask and take its time.
        if reference.startswith("file:"):
            with suppress(ConfigError):
                values.append(resolve(name, reference))
    return values, len(values) == len(references)
