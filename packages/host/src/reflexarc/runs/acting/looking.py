"""What sends nothing: pictures, notes, assertions, and failing on purpose."""

from __future__ import annotations

from reflexarc.playbook import waiting
from reflexarc.playbook.conditions import evaluate
from reflexarc.runs.acting.act import Act, Performed


async def screenshot(act: Act) -> Performed:
    """Keep the present frame."""
    seen = await act.watcher.fresh()
    return Performed(result={"phase": seen.phase, "frame": act.store(seen)})


async def note(act: Act) -> Performed:
    """Write a line into the journal."""
    return Performed(result={"text": act.rendered(str(act.args["text"]), shown=True)})


async def fail(act: Act) -> Performed:
    """End the run."""
    return Performed("failed", act.rendered(str(act.args["message"]), shown=True), fatal=True)


async def check(act: Act) -> Performed:
    """End the run where a condition doesn't hold now."""
    seen = await act.watcher.fresh()
    condition = act.state.step.condition_args["that"]
    if evaluate(condition, waiting.sight(act.state, seen, seen.at, since=float("-inf"))).holds:
        return Performed()
    message = act.rendered(str(act.args.get("message") or "the assertion does not hold"))
    return Performed("failed", f"{act.state.step.name}: {message}", fatal=True)
