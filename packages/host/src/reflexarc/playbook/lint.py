"""Checking a playbook that nobody runs yet: every mistake, and warnings with a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reflexarc.errors import PlaybookError
from reflexarc.observation import Phases
from reflexarc.playbook.condition_loader import ConditionLoader
from reflexarc.playbook.document import Document
from reflexarc.playbook.loader import load_document
from reflexarc.playbook.rules import CHECKS
from reflexarc.playbook.step_loader import load_step


@dataclass(frozen=True)
class LintWarning:
    """What is allowed and is hardly meant. code: its name, as `docs/playbooks.md` lists them.

    file: where it stands, an included file too. line, column: from 1; None where the playbook is no text.
    """

    code: str
    message: str
    remedy: str
    file: str | None
    line: int | None
    column: int | None


def mistakes(document: Document, phases: Phases) -> list[PlaybookError]:
    """The first mistake of the whole and the first of each step; none where it is a playbook."""
    try:
        load_document(document, phases)
    except PlaybookError as error:
        found = {str(error): error}
    else:
        return []
    steps = document.data.get("steps") if isinstance(document.data, Mapping) else None
    for index, raw in enumerate(steps if isinstance(steps, list) else ()):
        try:
            load_step(document, ("steps", index), raw, ConditionLoader(document, phases))
        except PlaybookError as error:
            found[str(error)] = error
    return sorted(found.values(), key=lambda error: (error.path or "", error.line or 0, error.column or 0))


def lint(document: Document, phases: Phases) -> list[LintWarning]:
    """The warnings of a playbook in the order of their places; raises PlaybookError where it is none."""
    playbook = load_document(document, phases)
    found = []
    for remark in (remark for check in CHECKS for remark in check(playbook, phases)):
        place = document.error(remark.path, remark.message)
        found.append(
            LintWarning(remark.code, remark.message, remark.remedy, place.path, place.line, place.column)
        )
    return sorted(found, key=lambda warning: (warning.file or "", warning.line or 0, warning.column or 0))
