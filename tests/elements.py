"""A played desktop: elements that tests put into its tree, and what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.played import lab, menu

from reflexarc.drivers.replay.script import Agent, Entry, Reaction, ReplayGuest, ReplayScript
from reflexarc.machine.accessibility import Area, Element
from reflexarc.machine.frame import Pixels
from reflexarc.playbook.state import Escalation, RunState
from reflexarc.runs.replies import Reply

FILES = ("Files", "Save as")
PRESSED = "accessibility.action:push button:Save:AXPress"


def button(name: str, ref: int = 1, **more: Any) -> Element:
    made = Element(
        ref,
        "AXButton",
        "push button",
        name=name,
        enabled=True,
        area=Area(100, 40, 80, 20),
        actions=("AXPress",),
        path=FILES,
    )
    return replace(made, **more)


def field(name: str, ref: int = 20, **more: Any) -> Element:
    made = Element(ref, "AXTextField", "text", name=name, value="", enabled=True, path=FILES)
    return replace(made, **more)


def window(app: str, ref: int = 90) -> Element:
    return Element(ref, "AXWindow", "frame", name=f"{app} window", path=(app,))


def wallpaper() -> Pixels:
    """A picture that is no text and no phase."""
    return np.random.default_rng(7).integers(0, 1 << 24, (480, 640)).astype(np.uint32)


def desktop(
    *elements: Element,
    agent: Agent = Agent.ANSWERS,
    reactions: Sequence[Reaction] = (),
    later: Sequence[Entry] = (),
    pixels: Pixels | None = None,
    **guest: Any,
) -> ReplayScript:
    """A desktop that shows nothing that is read, with these elements in its tree."""
    first = Entry(frame=wallpaper() if pixels is None else pixels)
    inside = ReplayGuest(elements=elements, agent=agent, **guest)
    return ReplayScript((first, *later), tuple(reactions), speed=1.0, guest=inside)


def shows(*elements: Element, on: str, after: float = 0.02, frame: Pixels | None = None) -> Reaction:
    """What an operation leads to: these elements, and no others."""
    return Reaction((Entry(after, frame=frame, elements=elements),), operation=on)


def run(
    tmp_path: Path,
    played: ReplayScript,
    *steps: dict[str, object],
    replies: Sequence[Reply] = (),
    grant: Sequence[str] = (),
    secrets: dict[str, str] | None = None,
    by: str = "terminal",
    **top: object,
) -> tuple[list[str], RunState]:
    """Run the steps; what was sent, and how it stands."""
    named = [{"name": f"step {i}", **step} for i, step in enumerate(steps)]
    ops = {"authorize": {"destructive": True, "ops": list(grant)}} if grant else {}
    declared = {"vars": {name: {"secret": True} for name in secrets}} if secrets else {}
    book = {"name": "test", **ops, **declared, "steps": named, **top}
    left = list(replies)

    async def answer(held: Escalation) -> Reply:
        return left.pop(0)

    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path, played) as it:
            it.session.phase_folder = tmp_path / "phases"
            begun = await it.session.begin(book, grant=grant, secret_values=secrets)
            if by == "terminal":
                state = await begun.drive(answer if replies else None)
                return it.sent(), state
            await begun.drive()
            for reply in left:
                begun.reply(reply, by=by)
                await begun.drive()
            return it.sent(), begun.state

    async def whole() -> tuple[list[str], RunState]:
        async with asyncio.timeout(60):
            return await play()

    return asyncio.run(whole())


__all__ = ["FILES", "PRESSED", "button", "desktop", "field", "menu", "run", "shows", "wallpaper", "window"]
