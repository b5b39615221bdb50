"""SIGKILL at every place of a run, also between sending and recording: it goes on, and nothing is fired twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.outliving import Death, Drive, Outliving, run
from tests.played import ASKED, BOOT, LOGIN, POST, SHELL, menu, text

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.machine.capabilities import PowerState
from reflexarc.playbook.state import Outcome, Reason, RunState, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply

SECRET = {"password": "s3same"}
BOOTS = (Entry(0.0, text(POST)), Entry(0.05, menu(0)))
SCRIPT = ReplayScript(
    reactions=(
        Reaction(BOOTS, operation="power.on"),
        Reaction(BOOTS, operation="power.reset", repeat=True),
        Reaction((Entry(0.02, menu(1)),), key="down", repeat=True),
        Reaction((Entry(0.0, text(BOOT)), Entry(0.05, text(LOGIN))), key="enter"),
        Reaction((Entry(0.02, text(ASKED)),), key="enter"),
        Reaction((Entry(0.02, text(SHELL)),), key="enter"),
    ),
    power=PowerState.OFF,
    speed=1.0,
)
LOWER = {"text": "Debian GNU/Linux$", "highlighted": True}
PLAYBOOK: dict[str, object] = {
    "name": "crashes",
    "unknown_after": 3,
    "defaults": {"timeout": 60},
    "vars": {"password": {"secret": True}},
    "authorize": {"destructive": True, "ops": ["power"]},
    "steps": [
        {"name": "on", "wait_for": "power_off", "action": "power_on"},
        {"name": "down", "wait_for": "grub_menu", "action": "press_key", "args": {"key": "down"},
         "expect": LOWER, "expect_timeout": 1},
        {"name": "restart", "wait_for": LOWER, "action": "reset", "destructive": True},
        {"name": "boot", "wait_for": {"text": "serial console", "highlighted": True}, "action": "press_key",
         "args": {"key": "enter"}, "expect": "login_prompt", "expect_timeout": 1},
        {"name": "user", "wait_for": "login_prompt", "action": "press_key", "args": {"key": "enter"},
         "expect": {"text": "^Password:$"}, "expect_timeout": 1},
        {"name": "password", "wait_for": {"text": "^Password:$"}, "action": "type_text",
         "args": {"text": "{{ password }}", "enter": True}, "expect": "shell_prompt", "expect_timeout": 1},
        {"name": "who", "wait_for": {"text": r"^root@(\w+):"}, "register": "who"},
        {"name": "again", "wait_for": "shell_prompt", "action": "reset", "destructive": True,
         "expect": "grub_menu", "expect_timeout": 1},
        {"name": "cut", "wait_for": "grub_menu", "action": "hard_off", "destructive": True},
        {"name": "off", "wait_for": "power_off"},
    ],
}  # fmt: skip
STEPS: list[dict[str, object]] = PLAYBOOK["steps"]  # type: ignore[assignment]
WHOLE = [
    "power.on", "key.down:down", "power.reset", "key.down:enter", "key.down:enter",
    *(f"key.down:{key}" for key in SECRET["password"]), "key.down:enter", "power.reset", "power.off",
]  # fmt: skip
# How many of these were sent once a step is done.
DONE = {"on": 1, "down": 2, "restart": 3, "boot": 4, "user": 5, "password": 12, "again": 13, "cut": 14}
TYPED = {f"key.down:{key}" for key in SECRET["password"]}
DESTRUCTIVE = ("power.reset", "power.off")


@dataclass
class Place:
    """One machine with one run, and the person who looks after it."""

    machine: Outliving
    drive: Drive

    def state(self) -> RunState | None:
        """The run as its journal says, None where none began."""
        journal = Journal(self.drive.state / "runs.sqlite")
        try:
            runs = journal.runs()
            return Ledger.open(journal, runs[0].run_id).state if runs else None
        finally:
            journal.close()

    def go_on(self) -> RunState:
        """Resume, and reply where it asks, until the run has ended."""
        for _ in range(4):
            state = self.state()
            if state is not None and state.stage is Stage.ENDED:
                return state
            begun = replace(self.drive, death=None)
            if state is not None:
                reply = self.reply(state) if state.stage is Stage.HELD else None
                begun = replace(begun, playbook=None, run_id=state.run_id, reply=reply)
            assert run(begun) == 0
        raise AssertionError(f"the run does not end: {self.state()}")

    def reply(self, state: RunState) -> Reply:
        """What a person answers who looks at the machine: whether the step in doubt was done tells the log."""
        assert state.escalation is not None
        assert state.escalation.reason in (Reason.INTERRUPTED, Reason.EXPECTATION_FAILED), state.escalation
        sent = self.machine.operations
        if len([what for what in sent if what in WHOLE]) >= DONE[state.step.name]:
            return Reply("amend", playbook=PLAYBOOK, resume_at=state.index + 1)
        return Reply("resume", grant=["power"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Outliving(tmp_path / "socket", SCRIPT).served() as machine:
        drive = Drive(tmp_path, machine.socket, PLAYBOOK, secrets=SECRET, grant=("power",))
        yield Place(machine, drive)


def test_without_a_crash(place: Place) -> None:
    assert run(place.drive) == 0
    state = place.state()
    assert state is not None
    assert (state.outcome, state.reason) == (Outcome.SUCCEEDED, "")
    assert place.machine.operations == WHOLE


# A run sends so many things; it has fewer events than this, and one that it has not is never reached.
EVENTS, SENDS = 60, 18
DEATHS = [
    *(Death(where, number) for number in range(EVENTS) for where in ("before", "after")),
    *(Death("sent", number) for number in range(1, SENDS + 1)),
]


def survives(place: Place, death: Death) -> None:
    """Kill the driver there and go on: the end is that of a run that was never killed."""
    code = run(replace(place.drive, death=death))
    assert code == -9 or (code == 0 and death.place != "sent")
    state = place.go_on()
    assert (state.outcome, state.reason) == (Outcome.SUCCEEDED, "")
    assert state.registered["who"]["match"] == "root@lab:"  # type: ignore[index]
    sent = place.machine.operations
    assert [what for what in sent if what in DESTRUCTIVE] == [what for what in WHOLE if what in DESTRUCTIVE]
    # A text that was cut off is typed again where the person says so, and nothing else is.
    assert [what for what in sent if what not in TYPED] == [what for what in WHOLE if what not in TYPED]
    if death.place != "sent":
        assert sent == WHOLE


# One of each kind: a start, an intent that isn't written yet or is, an act that is sent and not recorded, a text.
@pytest.mark.parametrize(
    "death",
    [Death("after", 0), *(Death("sent", number) for number in (1, 4, 12, 18))],
    ids=str,
)
def test_a_crash(place: Place, death: Death) -> None:
    survives(place, death)


@pytest.mark.full
@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_a_crash_anywhere(place: Place, death: Death) -> None:
    survives(place, death)
