"""Runs steps on a played machine, and says what was sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.played import lab, menu

from reflexarc.drivers.replay.script import Entry, Ran, ReplayGuest, ReplayScript
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.playbook.state import Escalation, Reason, RunState
from reflexarc.runs.replies import Reply

OPS = ["media", "boot", "snapshot", "power"]
AUTHORIZE = {"destructive": True, "ops": OPS}
GUEST = ReplayGuest(
    commands={
        "uname -r": Ran(b"6.1.0\n"),
        "false": Ran(stderr=b"it went wrong\n", status=3),
        "yes": Ran(b"y" * 100_000),
        "echo hello": Ran(b"hello\n"),
    },
    files={"/etc/hostname": b"lab\n"},
    apps=frozenset({"firefox"}),
)


def machine(**more: object) -> ReplayScript:
    """A machine that shows a boot menu and does nothing by itself."""
    base: dict[str, Any] = {"entries": (Entry(frame=menu(0)),), "speed": 1.0, **more}
    return ReplayScript(**base)


def run(
    tmp_path: Path,
    *steps: dict[str, object],
    played: ReplayScript | None = None,
    host: HostPaths | None = None,
    variables: dict[str, object] | None = None,
    secrets: dict[str, str] | None = None,
    replies: Sequence[Reply] = (),
    **top: object,
) -> tuple[list[str], RunState]:
    """Run the steps, everything granted; what was sent, and how it stands."""
    named = [{"name": f"step {i}", **step} for i, step in enumerate(steps)]
    declared = {"vars": {name: {"secret": True} for name in secrets}} if secrets else {}
    book = {"name": "test", "authorize": AUTHORIZE, **declared, "steps": named, **top}
    left = list(replies)

    async def answer(held: Escalation) -> Reply:
        return left.pop(0)

    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path, played or machine(guest=GUEST), host=host) as it:
            begun = await it.session.begin(book, grant=OPS, variables=variables, secret_values=secrets)
            state = await begun.drive(answer if replies else None)
            return it.sent(), state

    return asyncio.run(play())


# A step that may be skipped as far as anybody knows before the run; what it names is looked at when it fires.
PERHAPS = {"value": "yes", "equals": "yes"}


def one(
    tmp_path: Path, action: str, args: dict[str, object], *, when: object = None, **more: Any
) -> tuple[list[str], RunState]:
    step: dict[str, object] = {"action": action, "args": args, "register": "it", "when": when}
    if action in ("mount_iso", "eject", "set_boot_device", "rollback", "hard_cycle"):
        step["destructive"] = True
    return run(tmp_path, step, **more)


def detail(state: RunState) -> str:
    assert state.escalation is not None, state.reason
    assert state.escalation.reason is Reason.ACTION_FAILED
    return state.escalation.detail
