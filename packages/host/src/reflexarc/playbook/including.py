"""`include: file` among the steps: another playbook's steps in that place, read before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from reflexarc.errors import SafetyError
from reflexarc.machine.hostpaths import open_confined
from reflexarc.playbook import document as documents
from reflexarc.playbook import needles
from reflexarc.playbook.document import MAX_CHARACTERS, Document, Path
from reflexarc.playbook.fields import spell
from reflexarc.playbook.format import MAX_STEPS

MAX_DEPTH = 8
MAX_FILES = 100
# What of an included playbook's own keys comes along with its steps.
_DEFAULTS = ("timeout", "min_confidence", "hold_for")


def included(document: Document, file: FilePath) -> Document:
    """The document with every `include` replaced by the steps that it names, each keeping its place for errors.

    The files lie in the folder of the playbook or below. Their `vars`, `requires` and `defaults` come along, what
    they authorise does not. Raises PlaybookError.
    """
    data = document.data
    steps = data.get("steps") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(steps, list) or not any(map(_includes, steps)):
        return document
    whole = _Whole(document, file.parent, dict(data))
    whole.take(document, file, steps, (file.resolve(),))
    whole.data["steps"] = whole.steps
    return Document(whole.data, whole.places, document.name, whole.origins)


def _includes(step: object) -> bool:
    return isinstance(step, Mapping) and "include" in step


@dataclass
class _Whole:
    """The playbook as it comes together."""

    document: Document
    folder: FilePath
    data: dict[str, object]
    steps: list[object] = field(default_factory=list)
    files: int = 0
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places.update({p: place for p, place in self.document.places.items() if p[:1] != ("steps",)})
        self.places[("steps",)] = self.document.places.get(("steps",), (1, 1))

    def take(
        self, document: Document, file: FilePath, steps: list[object], chain: tuple[FilePath, ...]
    ) -> None:
        """Take in the steps of a document; chain: the files that led here."""
        for index, step in enumerate(steps):
            path: Path = ("steps", index)
            if isinstance(step, Mapping) and "include" in step:
                self._include(document, path, step, file, chain)
            else:
                self._keep(document, path, step)
            if len(self.steps) > MAX_STEPS:
                raise document.error(path, f"more than {MAX_STEPS} steps with what is included")

    def _keep(self, document: Document, path: Path, step: object) -> None:
        to: Path = ("steps", len(self.steps))
        for place, where in document.places.items():
            if place[:2] == path:
                self.places[(*to, *place[2:])] = where
        if document.name is not None and document is not self.document:
            self.origins[to] = document.name
        self.steps.append(step)

    def _include(
        self,
        document: Document,
        path: Path,
        step: Mapping[str, object],
        file: FilePath,
        chain: tuple[FilePath, ...],
    ) -> None:
        place = (*path, "include")
        name = step["include"]
        if not isinstance(name, str) or not name:
            raise document.error(place, f"include names a file, not {spell(name)}")
        if len(step) > 1:
            raise document.error(path, "beside include stands nothing: it is the steps of a file")
        if len(chain) > MAX_DEPTH:
            raise document.error(place, f"files that include files, more than {MAX_DEPTH} deep")
        self.files += 1
        if self.files > MAX_FILES:
            raise document.error(place, f"more than {MAX_FILES} files are included")
        try:
            target = (file.parent / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise document.error(
                place, f"{name!r} is no file in the folder of the playbook, or below it"
            ) from error
        if target in chain:
            raise document.error(place, f"{name} includes itself, directly or by another file")
        try:
            with open_confined(self.folder, str(target)) as opened:
                text = opened.read(4 * MAX_CHARACTERS + 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise document.error(place, f"{name} is not UTF-8 text") from error
        except SafetyError as error:
            raise document.error(
                place, f"{name} is no file in the folder of the playbook, or below it"
            ) from error
        other = documents.parse(text, str(file.parent / name))
        needles.embed(other, target.parent)
        self.take(other, target, self._merged(other), (*chain, target))

    def _merged(self, other: Document) -> list[object]:
        """Take in the keys of an included playbook that hold for its steps; return these."""
        data = other.data
        steps = data.get("steps") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not isinstance(steps, list):
            raise other.error((), "what is included is a playbook: a mapping that has steps")
        self._merge_variables(other, data.get("vars"))
        requires = data.get("requires")
        if isinstance(requires, list):
            own = self.data.get("requires")
            self.data["requires"] = [*(own if isinstance(own, list) else []), *requires]
        defaults = data.get("defaults")
        if not isinstance(defaults, Mapping):
            return steps
        carried = {key: defaults[key] for key in _DEFAULTS if defaults.get(key) is not None}
        return [{**carried, **step} if _is_step(step) else step for step in steps]

    def _merge_variables(self, other: Document, added: object) -> None:
        own = self.data.get("vars")
        if not isinstance(added, Mapping) or not isinstance(own, Mapping | None):
            return
        self.data["vars"] = {**added, **(own or {})}
        for name in added:
            if own is None or name not in own:
                path: Path = ("vars", name)
                self.places.update({p: where for p, where in other.places.items() if p[:2] == path})
                if other.name is not None:
                    self.origins[path] = other.name


def _is_step(step: object) -> bool:
    return isinstance(step, Mapping) and not _includes(step)
