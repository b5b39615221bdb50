"""The design's own example, as it stands, on a played machine whose screens were recorded from real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.played import lab

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.machine.capabilities import PowerState
from reflexarc.playbook.state import Outcome, Reason, RunState

TESTS = Path(__file__).parents[2]
BOOK = TESTS / "playbooks/unattended-ubuntu-install.yaml"
OPS = ["media.mount", "power.cycle", "media.eject"]


def screen(name: str) -> Path:
    return TESTS / "screens" / f"{name}.png"


def installer() -> ReplayScript:
    """Off; switched on it shows firmware and GRUB's menu, after Enter a kernel and an installation to its end."""
    boots = (Entry(0.0, screen("seabios_post")), Entry(0.1, screen("grub_menu")))
    installs = (
        Entry(0.0, screen("linux_kernel_start")),
        Entry(0.1, screen("di_detecting")),
        Entry(0.2, screen("di_base_system")),
        Entry(0.4, screen("di_complete")),
    )
    return ReplayScript(
        reactions=(Reaction(boots, operation="power.cycle"), Reaction(installs, key="enter")),
        power=PowerState.OFF,
        speed=1.0,
    )


def run(tmp_path: Path, grant: list[str], iso: Path) -> tuple[list[str], RunState]:
    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path / "state", installer()) as it:
            begun = await it.session.begin(BOOK, grant=grant, variables={"iso": str(iso)})
            state = await begun.drive()
            return it.sent(), state

    return asyncio.run(play())


def test_it_installs(tmp_path: Path) -> None:
    iso = tmp_path / "ubuntu.iso"
    iso.write_bytes(b"iso")
    (tmp_path / "link.iso").symlink_to(iso)
    sent, state = run(tmp_path, OPS, tmp_path / "link.iso")
    assert state.outcome is Outcome.SUCCEEDED, state.escalation
    assert sent == [f"media.mount:{iso}", "power.cycle", "key.down:enter", "media.eject"]
    assert [visit.phase for visit in state.history if visit.phase != "unknown"][-1] == "installer_complete"
    assert set(state.grants.values()) == {0}


def test_without_its_grant_nothing_is_sent(tmp_path: Path) -> None:
    iso = tmp_path / "ubuntu.iso"
    iso.write_bytes(b"iso")
    sent, state = run(tmp_path, ["power.cycle"], iso)
    assert state.escalation is not None
    assert (sent, state.escalation.reason) == ([], Reason.NEEDS_AUTHORIZATION)
