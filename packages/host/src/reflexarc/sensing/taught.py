"""Recognisers taught at a hold: made of a lesson, kept as files in the user's folder of phases, accepted, forgotten."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from reflexarc.errors import ConfigError
from reflexarc.machine.accessibility import Selector
from reflexarc.sensing.evidence import Evidence, Seen, Text
from reflexarc.sensing.needle import Patch
from reflexarc.sensing.recogniser import Recogniser
from reflexarc.sensing.tree import ShownElement

CONFIDENCE = 0.97
PREFIX, _SUFFIX = "taught-", ".yaml"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}-[0-9a-f]{10}")
_MAX_FILE = 1 << 16


@dataclass(frozen=True)
class Taught:
    """One thing that was taught.

    text: a regular expression, needle: a PNG file, element: what tells an element of a guest's tree; empty where the
    phase isn't known by such. by_agent: no person
    stands behind it. new: the phase was not known before.
    """

    phase: str
    text: str = ""
    needle: bytes = b""
    by_agent: bool = False
    new: bool = False
    element: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called: the phase and a digest of the evidence."""
        parts = [
            self.text,
            base64.b64encode(self.needle).decode(),
            *([dict(self.element)] if self.element else []),
        ]
        evidence = json.dumps(parts).encode()
        return f"{self.phase}-{blake2b(evidence, digest_size=5).hexdigest()}"

    def recogniser(self) -> Recogniser:
        """The recogniser it makes; an agent's has a rung of its own, whose word no precondition takes."""
        evidence: list[Evidence] = []
        if self.text:
            evidence.append(Text(re.compile(self.text, re.MULTILINE)))
        if self.needle:
            evidence.append(Seen(self.name))
        if self.element:
            evidence.append(ShownElement(Selector.of(self.element)))
        own = "accessibility" if self.element else "needle" if self.needle else "text"
        rung = "taught" if self.by_agent else own
        return Recogniser(
            self.phase,
            tuple(evidence),
            confidence=CONFIDENCE,
            rung=rung,
            source="tree" if self.element else "screen",
            place="taught to this run",
            taught=True,
        )

    def patches(self) -> tuple[Patch, ...]:
        """The picture that its evidence looks for."""
        return (Patch(self.name, self.needle),) if self.needle else ()


@dataclass(frozen=True)
class Kept:
    """What a file of the folder says was taught. evidence: in words. by: person or agent."""

    name: str
    phase: str
    by: str
    run: str
    accepted: bool
    evidence: tuple[str, ...]


def keep(folder: Path, taught: Taught, run: str) -> str:
    """Write what was taught in a run into the folder of phases, and return its name.

    A person's counts at once in later runs, an agent's when a person accepts it; what a person accepted already
    stays so. Raises ConfigError where it can't be written.
    """
    name = taught.name
    known = next((one for one in kept(folder) if one.name == name), None)
    if known is not None and known.accepted:
        return name
    evidence: list[object] = []
    content: dict[str, object] = {
        "taught": {
            "by": "agent" if taught.by_agent else "person",
            "run": run,
            "accepted": not taught.by_agent,
        }
    }
    if taught.new:
        content["phases"] = {taught.phase: {}}
    if taught.text:
        evidence.append({"text": taught.text})
    if taught.needle:
        content["needles"] = {name: {"image": f"{PREFIX}{name}.png"}}
        evidence.append({"needle": name})
    if taught.element:
        evidence.append({"element": dict(taught.element)})
    content["recognisers"] = [{"phase": taught.phase, "confidence": CONFIDENCE, "evidence": evidence}]
    if taught.needle:
        _write(folder / f"{PREFIX}{name}.png", taught.needle)
    _write_content(folder, name, content)
    return name


def kept(folder: Path) -> list[Kept]:
    """Everything that was taught, by name; raises ConfigError for a file that can't be read."""
    names = [path.name[len(PREFIX) : -len(_SUFFIX)] for path in folder.glob(f"{PREFIX}*{_SUFFIX}")]
    return [_kept(folder, name) for name in sorted(names) if _NAME.fullmatch(name)]


def accept(folder: Path, name: str) -> None:
    """Let something taught by an agent count in later runs; raises ConfigError where there is none of that name."""
    content = _content(folder, _checked(folder, name))
    taught = content["taught"]
    assert isinstance(taught, dict)
    _write_content(folder, name, {**content, "taught": {**taught, "accepted": True}})


def forget(folder: Path, name: str) -> None:
    """Remove something taught; raises ConfigError where there is none of that name."""
    _checked(folder, name)
    for file in (_file(folder, name), folder / f"{PREFIX}{name}.png"):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"it can't be removed: {error.strerror}", path=file) from error


def _checked(folder: Path, name: str) -> str:
    if not _NAME.fullmatch(name) or not _file(folder, name).is_file():
        raise ConfigError(
            f"nothing named {name!r} was taught; `reflexarc phases list --taught` names what was"
        )
    return name


def _file(folder: Path, name: str) -> Path:
    return folder / f"{PREFIX}{name}{_SUFFIX}"


def _kept(folder: Path, name: str) -> Kept:
    content: Any = _content(folder, name)
    try:
        taught, (recogniser,) = content["taught"], content["recognisers"]
        return Kept(
            name,
            str(recogniser["phase"]),
            str(taught["by"]),
            str(taught["run"]),
            taught["accepted"] is True,
            tuple(f"{kind} {value!r}" for piece in recogniser["evidence"] for kind, value in piece.items()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _broken(folder, name) from error


def _content(folder: Path, name: str) -> dict[str, object]:
    file = _file(folder, name)
    try:
        with file.open(encoding="utf-8") as opened:
            content = json.loads(opened.read(_MAX_FILE))
    except OSError as error:
        raise ConfigError(f"it can't be read: {error.strerror}", path=file) from error
    except (ValueError, RecursionError) as error:
        raise _broken(folder, name) from error
    if not isinstance(content, dict) or not isinstance(content.get("taught"), dict):
        raise _broken(folder, name)
    return content


def _broken(folder: Path, name: str) -> ConfigError:
    return ConfigError("this is not as it was written; remove it", path=_file(folder, name))


def _write_content(folder: Path, name: str, content: dict[str, object]) -> None:
    # JSON is YAML, and quotes whatever a reply may hold.
    _write(_file(folder, name), (json.dumps(content, indent=1) + "\n").encode())


def _write(file: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, for the user alone to read."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(content)
        new.replace(file)
    except OSError as error:
        raise ConfigError(f"what was taught can't be kept: {error.strerror}", path=file) from error
