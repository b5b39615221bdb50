"""What an act changed, in a few lines."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Awaitable

from mcp_types import CallToolResult

from reflexarc.errors import SafetyError
from reflexarc.mcp import veil
from reflexarc.mcp.hub import Opened
from reflexarc.mcp.picture import picture
from reflexarc.mcp.results import cleaned, fenced, result
from reflexarc.observation import Observation

PATIENCE = 0.5
SETTLING = 0.15
MAX_LINES, MAX_LINE = 12, 120


async def acted(opened: Opened, action: str, act: Awaitable[None], *, screenshot: bool) -> CallToolResult:
    """Await an act, and say what the machine shows then that it did not before."""
    watcher = opened.session.watcher
    before = watcher.latest or await watcher.fresh()
    sent = time.monotonic()
    await act
    after = await watcher.next(watcher.latest, PATIENCE) or watcher.latest or before
    await watcher.still(SETTLING, at_most=PATIENCE)
    after = watcher.latest or after
    before, after = veil.covered(before), veil.covered(after)
    changed = after.changed_at > sent
    values: dict[str, object] = {"action": action, "done": True, "changed": changed, "phase": after.phase}
    words = [f"{action}: done. {_told(before, after, changed=changed)}"]
    new = new_lines(before, after)
    if new:
        values["new_text"], values["text_is_untrusted"] = new, True
        words.append(fenced("\n".join(new)))
    if not screenshot:
        return result("\n".join(words), values)
    try:
        data, opened.scale = await asyncio.to_thread(picture, await opened.session.screen.screenshot())
    except SafetyError as refusal:
        return result("\n".join([*words, str(refusal)]), {**values, "withheld": str(refusal)})
    return result("\n".join(words), values, data)


def _told(before: Observation, after: Observation, *, changed: bool) -> str:
    if before.phase != after.phase:
        return f"The machine went from {before.phase} to {after.phase}."
    return f"The screen changed ({after.phase})." if changed else f"Nothing has changed yet ({after.phase})."


def new_lines(before: Observation, after: Observation) -> list[str]:
    """The lines of text that are there now and were not."""
    lines = difflib.ndiff(before.text.splitlines(), after.text.splitlines())
    new = [cleaned(line[2:].rstrip())[:MAX_LINE] for line in lines if line.startswith("+ ")]
    return [line for line in new if line][-MAX_LINES:]
