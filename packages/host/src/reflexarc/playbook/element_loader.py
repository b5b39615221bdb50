"""Plain data to selectors of elements."""

from __future__ import annotations

import re

from reflexarc.machine.accessibility import Selector
from reflexarc.playbook.actions import Action
from reflexarc.playbook.document import Document, Path
from reflexarc.playbook.fields import Fields
from reflexarc.playbook.format import ELEMENT, ELEMENT_TEXTS

MAX_SELECTOR_TEXT = 1000
# A reference that an earlier step registered, and nothing else.
REF = r"^\{\{\s*[A-Za-z_]\w*\.ref\s*\}\}"
_REF = re.compile(REF + r"\Z")


def load_selector(document: Document, path: Path, raw: object) -> Selector:
    """Check which element is meant; raises PlaybookError where nothing of it is known."""
    fields = Fields(document, path, raw, ELEMENT, "an element")
    texts = {key: element_text(fields, key) for key in ELEMENT_TEXTS}
    if not any(texts.values()):
        raise document.error(path, f"an element is told by at least one of: {', '.join(ELEMENT_TEXTS)}")
    flags = {key: _known(fields, key) for key in ("enabled", "focused", "showing")}
    return Selector.of({**texts, **flags})


def element_text(fields: Fields, key: str) -> str | None:
    """A text that tells an element."""
    text = fields.text(key)
    if text is not None and not 0 < len(text) <= MAX_SELECTOR_TEXT:
        raise fields.error(key, f"{key} has 1 to {MAX_SELECTOR_TEXT} characters; leave it out to ask nothing")
    return text


def load_ref(fields: Fields, key: str) -> str | None:
    """A reference, as an earlier step registers it."""
    text = fields.text(key)
    if text is not None and not _REF.match(text):
        raise fields.error(key, "ref is what an earlier step registered, such as '{{ name.ref }}'")
    return text


def check_selection(fields: Fields, action: Action, given: Fields) -> None:
    """An action on an element names it, either by what it is or by a reference."""
    if not action.selects:
        return
    named = [key for key in action.selects if given.get(key) is not None]
    texts = [key for key in named if key in ELEMENT_TEXTS]
    if given.get("ref") is not None and named:
        raise given.error(named[0], f"{action.name} takes either a ref or {', '.join(action.selects)}")
    if given.get("ref") is None and not texts:
        known = [key for key in action.selects if key in ELEMENT_TEXTS]
        raise fields.error("args", f"{action.name} needs a ref, or at least one of: {', '.join(known)}")


def _known(fields: Fields, key: str) -> bool | None:
    return None if fields.get(key) is None else fields.flag(key)
