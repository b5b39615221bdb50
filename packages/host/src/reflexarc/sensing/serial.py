"""The serial rung: the text of the serial console, where there is no screen to ask."""

from __future__ import annotations

import re

from reflexarc.observation import CONFIDENT
from reflexarc.sensing.recogniser import Recognisers
from reflexarc.sensing.verdict import Answer

KEPT = 16_384

# Source: ECMA-48, control sequences (CSI), operating system commands (OSC) and other escapes; then C0 and C1.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain(text: str) -> str:
    """The last 16 KiB of a console's text, lines ended by newlines, control sequences taken out."""
    return without_controls(text[-KEPT:])


def without_controls(text: str) -> str:
    """A console's text, lines ended by newlines, control sequences taken out."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def read_serial(recognisers: Recognisers, text: str) -> Answer | None:
    """The phase that the serial text speaks for, at or above the rung's threshold; `text` is plain."""
    found = recognisers.of_serial(text) if text else None
    if found is None or found.confidence < CONFIDENT:
        return None
    return Answer(found.phase, found.confidence, "serial", found.complete)
