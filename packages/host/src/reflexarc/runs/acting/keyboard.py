"""Keys and texts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from reflexarc.errors import ConfigError, OperationRejectedError, PlaybookError
from reflexarc.observation import Observation
from reflexarc.playbook import waiting
from reflexarc.playbook.conditions import evaluate
from reflexarc.runs.acting.act import Act, Performed, has_controls
from reflexarc.runs.typing import Typist
from reflexarc.sensing.watcher import Watcher

# Programs that ask for a password throw away what was typed before they had switched the echo off, which is
# just after they printed the prompt; and what isn't echoed can't be read back.
STILL, STILL_AT_MOST = 0.3, 3.0
REACTION_STILL, REACTION_TIMEOUT = 0.08, 2.0
_DIGITS = re.compile(r"\d+")


async def press(act: Act) -> Performed:
    """Press a key or a chord."""
    times = act.args.get("times")
    key = str(act.args.get("key") or act.args.get("chord"))
    await act.machine.keyboard.press(key, times=times if isinstance(times, int) else 1)
    return Performed(pressed_at=act.machine.keyboard.pressed_at)


async def press_until(act: Act) -> Performed:
    """Press a key until its condition holds; each press waits for what the one before it led to."""
    key, condition = str(act.args["key"]), act.state.step.condition_args["until"]
    most, presses = act.whole("max"), 0

    def holds(seen: Observation) -> bool:
        return evaluate(condition, waiting.sight(act.state, seen, seen.at, since=float("-inf"))).holds

    seen = await act.watcher.fresh()
    while not holds(seen):
        if presses >= most:
            raise OperationRejectedError(
                f"pressed {key} {most} times, and what it was pressed for does not hold",
                machine=act.machine.name,
                operation="keyboard.press",
                code="press_until",
            )
        await act.machine.keyboard.press(key)
        presses += 1
        seen = await _reaction(act.watcher, seen, holds)
    return Performed(result={"presses": presses})


async def _reaction(
    watcher: Watcher, before: Observation, holds: Callable[[Observation], bool]
) -> Observation:
    """What the machine shows after a key: once it has answered and stands still, or after two seconds.

    A menu may answer late, and its countdown goes on meanwhile; what holds ends the wait at once.
    """
    sent = time.monotonic()
    seen = await watcher.fresh()
    while not holds(seen) and (left := sent + REACTION_TIMEOUT - time.monotonic()) > 0:
        if _answered(before, seen, sent):
            await watcher.still(REACTION_STILL, at_most=left)
            settled = await watcher.fresh()
            if holds(settled) or _answered(before, settled, sent):
                return settled
        seen = await watcher.next(seen, left) or seen
    return seen


def _answered(before: Observation, seen: Observation, sent: float) -> bool:
    """Tell whether what shows is an answer to a key, not a countdown or a menu in the middle of being drawn."""
    if before.screen is None or seen.screen is None:
        return seen.changed_at > sent
    if before.screen.highlighted:
        return bool(seen.screen.highlighted) and seen.screen.highlighted != before.screen.highlighted
    return _DIGITS.sub("", seen.screen.text) != _DIGITS.sub("", before.screen.text)


async def type_text(act: Act) -> Performed:
    """Type a text; one that is no secret is read back."""
    template = str(act.args["text"])
    text = act.text("text")
    if act.holds_results(template) and has_controls(text):
        raise PlaybookError("a value from the machine holds control characters; it is not typed")
    keyboard, typist = act.machine.keyboard, None
    if bool(act.args.get("secret")) or bool(act.roots(template) & set(act.secrets)):
        await act.watcher.still(STILL, at_most=STILL_AT_MOST)
        try:
            await keyboard.type(text, secret=True)
        except ConfigError:
            raise ConfigError("the keyboard layout can't type a character of this secret") from None
    else:
        typist = Typist(keyboard, act.watcher, act.machine.name)
        await typist.type(text)
    if act.args.get("enter"):
        await keyboard.press("enter")
    corrected = typist.corrected if typist is not None else 0
    result = {"corrected": corrected} if corrected else {}
    return Performed(pressed_at=keyboard.pressed_at, result=result)
