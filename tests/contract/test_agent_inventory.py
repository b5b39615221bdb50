"""A machine of the inventory with an agent: opened whether it answers or not, routed, examined."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.agents import running
from tests.lent import content, ran

from reflexarc.drivers.replay.driver import open_replay
from reflexarc.drivers.replay.script import Entry as Played
from reflexarc.drivers.replay.script import ReplayScript
from reflexarc.errors import CapabilityError, ConfigError, ConnectError
from reflexarc.inventory import entries
from reflexarc.inventory.entries import Entry
from reflexarc.inventory.examining import machine_findings
from reflexarc.inventory.lending import open_lent, refreshing
from reflexarc.inventory.opening import open_session
from reflexarc.machine.capabilities import Capabilities, Command, PowerState
from reflexarc.machine.reach import Lent
from reflexarc.runs.preflight import Finding, Severity
from reflexarc.sensing.ladder import Ladder
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.watcher import Watcher


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recording of a machine that is on, and for the state."""
    monkeypatch.setenv("REFLEXARC_STATE", str(tmp_path / "state"))
    (tmp_path / "played").mkdir()
    lines = [{"at": 0.0, "power": "on"}, {"at": 0.0, "serial": "lab1 login: "}]
    (tmp_path / "played/recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def entry(folder: Path, agent: str, drivers: str = '["replay", "agent"]') -> Entry:
    inventory = folder / "reflexarc.toml"
    inventory.write_text(
        f'[machines.lab1]\ndrivers = {drivers}\nreplay = {{recording = "played"}}\nagent = {{{agent}}}\n'
    )
    return entries.load(inventory).entry("lab1")


AGENT = 'enabled = true, transport = "unix", path = "a.sock"'


def test_a_machine_opens_before_its_agent_answers_and_reaches_it_afterwards(folder: Path) -> None:
    async def run() -> None:
        async with open_session(entry(folder, AGENT)) as session:
            assert await session.power.state() is PowerState.ON
            assert {"shell", "files", "apps", "accessibility"} <= set(session.machine.offers)
            with pytest.raises(
                ConnectError, match=r"lab1: its agent doesn't answer at unix:.*Nothing was sent"
            ):
                await ran(session.shell, Command(line="true"))
            with running(folder / "a.sock"):
                assert (await ran(session.shell, Command(line="echo up")))[0] == b"up\n"
                assert await content(session.files, str(folder / "reflexarc.toml"))

    asyncio.run(run())


def test_an_agent_that_is_not_enabled_is_neither_asked_nor_offered(folder: Path) -> None:
    async def run() -> None:
        found = entry(folder, 'transport = "unix", path = "a.sock"')
        async with open_session(found) as session:
            assert "accessibility" not in session.machine.offers
            with pytest.raises(CapabilityError):
                _ = session.accessibility

    asyncio.run(run())


def test_pixels_are_offered_where_they_are_asked_for(folder: Path) -> None:
    async def offers(agent: str) -> tuple[str, ...]:
        async with open_lent(entry(folder, agent, '["agent"]')) as (lent,):
            return lent.capabilities.names()

    inside = ("shell", "files", "apps", "accessibility")
    assert asyncio.run(offers(AGENT)) == inside
    assert asyncio.run(offers(f"{AGENT}, pixels = true")) == ("screen", "keyboard", "pointer", *inside)


@dataclass
class Refreshed:
    """A reach that tells when it is to look anew."""

    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self, feature: str) -> bool:
        return False

    def refresh(self) -> None:
        self.told.set()


def test_a_machine_that_is_seen_to_start_has_its_agent_looked_for_again() -> None:
    async def run() -> None:
        played, reach = open_replay(ReplayScript(power=PowerState.ON)), Refreshed()
        sensed = Capabilities(power=played.power, console=played.console)
        lent = [Lent("agent", Capabilities(), reach)]
        ladder = Ladder(load_recognisers([]))
        async with asyncio.timeout(20), Watcher(sensed, ladder, "m") as watcher, refreshing(watcher, lent):
            played.play(Played(power=PowerState.OFF))
            await reach.told.wait()
            off = watcher.latest
            played.play(Played(power=PowerState.ON))
            await watcher.next(off, None)
            reach.told.clear()
            played.play(Played(serial="lab1 login: "))
            await reach.told.wait()

    asyncio.run(run())


def test_a_mistake_of_its_table_keeps_the_machine_closed(folder: Path) -> None:
    async def run(agent: str) -> None:
        async with open_session(entry(folder, agent)):
            pass

    for agent, problem in (
        ('enabled = true, transport = "unix"', "agent.path"),
        (f'{AGENT}, token = "env:NO_SUCH_TOKEN"', "NO_SUCH_TOKEN is not set"),
    ):
        with pytest.raises(ConfigError, match=problem):
            asyncio.run(run(agent))


def told(folder: Path, agent: str) -> list[Finding]:
    """What the doctor says of the agent."""
    return [
        finding for finding in asyncio.run(machine_findings(entry(folder, agent))) if finding.check == "agent"
    ]


def test_the_doctor_tells_how_the_agent_is(folder: Path) -> None:
    (absent,) = told(folder, AGENT)
    assert absent.severity is Severity.WARNING
    assert "doesn't answer at unix:" in absent.detail
    (off,) = told(folder, 'transport = "unix", path = "a.sock"')
    assert (off.severity, "enabled = true" in off.detail) == (Severity.INFO, True)
    with running(folder / "a.sock"):
        (present,) = told(folder, AGENT)
    assert present.severity is Severity.OK
    assert "version 3" in present.detail
    assert "exec, files" in present.detail


def test_the_doctor_tells_what_a_desktop_lacks_and_how_to_grant_it(folder: Path) -> None:
    nowhere = {"DISPLAY": ":4711", "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/none"}
    with running(folder / "a.sock", extra=nowhere):
        present, *lacking = told(folder, AGENT)
    assert present.severity is Severity.OK
    assert {finding.detail.split()[0] for finding in lacking} >= {"accessibility", "screen", "input"}
    assert all(finding.severity is Severity.WARNING and finding.fix for finding in lacking)
