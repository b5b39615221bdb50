"""Preflight: what is critical, and what isn't on a machine that is off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.played import SHELL, menu, text

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import Entry, Fault, ReplayScript
from reflexarc.errors import CapabilityError, MachineError
from reflexarc.machine.capabilities import Capabilities, PowerState
from reflexarc.machine.guard import Guard
from reflexarc.machine.machine import Machine
from reflexarc.machine.policy import Policy
from reflexarc.runs.preflight import Finding, Severity, examine, preflight, require

ON = ReplayScript(entries=(Entry(0.0, text(SHELL)),), speed=1.0)


def machine(played: ReplayScript, *, without: Sequence[str] = ()) -> Machine:
    lent = open_replay(played, machine="lab")
    left = {name: getattr(lent, name) for name in lent.names() if name not in without}
    return Machine("lab", Capabilities(**left), Guard("lab", Policy(), dry_run=True))


def looked(played: ReplayScript, *needs: str) -> dict[str, Finding]:
    return {found.check: found for found in asyncio.run(preflight(machine(played), needs))}


def examined(played: ReplayScript, *, without: Sequence[str] = ()) -> dict[str, Finding]:
    return {found.check: found for found in asyncio.run(examine(machine(played, without=without), "de"))}


def test_a_machine_that_is_on_and_shows_something() -> None:
    found = looked(ON, "keyboard", "power")
    assert {check: finding.severity for check, finding in found.items()} == dict.fromkeys(
        ("capabilities", "power", "signal", "screen"), Severity.OK
    )
    assert found["screen"].detail.startswith("720x400, ")


def test_no_signal_is_critical_where_it_is_on_and_only_there() -> None:
    dark = replace(ON, entries=(Entry(0.0, text(SHELL), signal=False),))
    assert looked(dark)["signal"].severity is Severity.CRITICAL
    with pytest.raises(MachineError, match="preflight: signal: it is on, and no signal comes"):
        require("lab", looked(dark).values())
    off = replace(dark, power=PowerState.OFF)
    assert not any(finding.critical for finding in looked(off).values())
    assert examined(off)["signal"].severity is Severity.INFO


def test_a_screen_that_fails_is_critical() -> None:
    found = looked(replace(ON, faults={"screen.screenshot": (Fault.LOSE_BEFORE,)}))
    assert found["screen"].critical
    assert found["screen"].fix


def test_a_capability_that_is_missing_is_critical() -> None:
    found = asyncio.run(preflight(machine(ON, without=["console", "power"]), ["console"]))
    assert [finding.check for finding in found if finding.critical] == ["capabilities"]
    with pytest.raises(CapabilityError, match="missing: console"):
        require("lab", found)


def test_the_doctor_asks_whatever_is_offered() -> None:
    found = examined(ON, without=["media"])
    assert found["keyboard"].detail == "present, layout de"
    assert found["reader"] == Finding("reader", Severity.OK, "80x25 characters of 9x16 pixels, 100% read")
    assert (found["media"].severity, found["media"].detail) == (
        Severity.INFO,
        "no driver of this machine offers it",
    )
    assert found["boot"].detail == "its own order"
    assert found["freeze"].detail == "not frozen"
    assert not any(finding.critical for finding in found.values())


def test_a_picture_without_text_is_said_to_be_one() -> None:
    noise = np.random.default_rng(7).integers(0, 1 << 24, (400, 640), dtype=np.uint32)
    found = examined(replace(ON, entries=(Entry(0.0, noise),)))
    assert found["reader"] == Finding("reader", Severity.INFO, "no text console is seen in 640x400")


def test_nothing_is_sent() -> None:
    lent = open_replay(ReplayScript(entries=(Entry(0.0, menu(0)),)), machine="lab")
    asyncio.run(examine(Machine("lab", lent, Guard("lab", Policy(), dry_run=True)), "us"))
    assert lent.sent == []
