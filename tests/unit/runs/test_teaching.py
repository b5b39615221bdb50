"""Teaching a held run: what is refused, what the run then knows, and what later runs know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.played import lab, text

from reflexarc.drivers.replay.script import Entry, ReplayScript
from reflexarc.errors import ConfigError, PlaybookError
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame, Pixels
from reflexarc.playbook.events import Replied
from reflexarc.playbook.state import Outcome, Reason, RunState
from reflexarc.runs.describe import describe_escalation
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.taught import accept, forget, kept

APPLIANCE = ["ACME appliance 4.2", "", "  1) Network", "  2) Shell", "", "Choose:"]
PANIC = ["[    4.2] Kernel panic - not syncing: VFS", *APPLIANCE]
STOPPED = ["FATAL ERROR. Installation stopped.", *APPLIANCE]
LOGO = np.random.default_rng(3).integers(0, 1 << 24, (30, 60)).astype(np.uint32)
TEACH = Reply("teach", phase="os_running", text="^ACME appliance")


def drawn() -> Pixels:
    """A picture that is no text, with a logo on it."""
    picture = np.random.default_rng(4).integers(0, 1 << 24, (480, 640)).astype(np.uint32)
    picture[200:230, 300:360] = LOGO
    return picture


def shows(pixels: Pixels) -> ReplayScript:
    return ReplayScript(entries=(Entry(0.0, pixels),), power=PowerState.ON, speed=1.0)


STEPS: list[dict[str, object]] = [
    {"name": "up", "wait_for": "os_running", "action": "press_key", "args": {"key": "1"}},
]
DESTRUCTIVE: list[dict[str, object]] = [
    {"name": "off", "wait_for": "os_running", "action": "hard_off", "destructive": True}
]


def play(
    tmp_path: Path,
    replies: Sequence[Reply],
    *,
    pixels: Pixels | None = None,
    steps: Sequence[Mapping[str, object]] = STEPS,
    by: str = "terminal",
    grant: Sequence[str] = (),
) -> tuple[RunState, list[str]]:
    """Run the steps on an appliance nobody knows, answering each hold in turn."""
    ops = {"authorize": {"destructive": True, "ops": list(grant)}} if grant else {}

    async def go() -> tuple[RunState, list[str]]:
        played = shows(text(APPLIANCE) if pixels is None else pixels)
        async with lab(tmp_path, played) as it:
            it.session.phase_folder = tmp_path / "phases"
            playbook = {"name": "taught", "unknown_after": 0.1, **ops, "steps": list(steps)}
            run = await it.session.begin(playbook, grant=grant)
            await run.drive()
            for reply in replies:
                run.reply(reply, by=by)
                await run.drive()
            return run.state, it.sent()

    return asyncio.run(go())


def test_a_person_teaches_a_screen_and_the_run_goes_on(tmp_path: Path) -> None:
    state, sent = play(tmp_path, [TEACH])
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:1"])
    assert [(visit.phase, visit.rung) for visit in state.history] == [
        ("unknown", "none"),
        ("os_running", "text"),
    ]
    (one,) = kept(tmp_path / "phases")
    assert (one.phase, one.by, one.accepted, one.run) == ("os_running", "person", True, state.run_id)
    assert one.evidence == ("text '^ACME appliance'",)
    later = Ladder(load_recognisers([tmp_path / "phases"]))
    seen = later.read(Readings(at=1.0, frame=Frame(text(APPLIANCE), 1.0, 1)))
    assert (seen.phase, seen.rung, seen.complete) == ("os_running", "text", False)


def test_the_journal_alone_tells_the_lesson_again(tmp_path: Path) -> None:
    state, _ = play(tmp_path, [TEACH])
    journal = Journal(tmp_path / "runs.sqlite")
    (replied,) = [e for e in journal.read(state.run_id).events if isinstance(e, Replied)]
    assert replied.lesson is not None
    assert (replied.lesson.phase, replied.lesson.text) == ("os_running", "^ACME appliance")
    assert Ledger.open(journal, state.run_id).state == state


def test_a_picture_teaches_where_there_is_no_text(tmp_path: Path) -> None:
    png = Frame(LOGO, 0.0, 1).png()
    state, sent = play(tmp_path, [Reply("teach", phase="os_running", needle=png)], pixels=drawn())
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:1"])
    later = Ladder(load_recognisers([tmp_path / "phases"]))
    assert later.read(Readings(at=1.0, frame=Frame(drawn(), 1.0, 1))).rung == "needle"


def test_an_agent_ends_a_wait_by_teaching_but_satisfies_no_precondition(tmp_path: Path) -> None:
    state, sent = play(tmp_path / "wait", [TEACH], by="agent")
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:1"])
    assert state.history[-1].rung == "taught"
    state, sent = play(tmp_path / "fire", [TEACH], by="agent", steps=DESTRUCTIVE, grant=["power.off"])
    assert state.escalation is not None
    assert (state.escalation.reason, sent) == (Reason.PRECONDITION_MISMATCH, [])
    state, sent = play(tmp_path / "person", [TEACH], steps=DESTRUCTIVE, grant=["power.off"])
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["power.off"])


def test_what_an_agent_taught_counts_later_once_a_person_accepts_it(tmp_path: Path) -> None:
    play(tmp_path, [TEACH], by="agent")
    folder = tmp_path / "phases"
    frame = Frame(text(APPLIANCE), 1.0, 1)
    (one,) = kept(folder)
    assert (one.by, one.accepted) == ("agent", False)
    assert Ladder(load_recognisers([folder])).read(Readings(at=1.0, frame=frame)).phase == "unknown"
    accept(folder, one.name)
    assert Ladder(load_recognisers([folder])).read(Readings(at=1.0, frame=frame)).phase == "os_running"
    forget(folder, one.name)
    assert (kept(folder), list(folder.iterdir())) == ([], [])


def test_a_phase_nobody_knew_can_be_awaited_after_it_was_taught(tmp_path: Path) -> None:
    amended = {
        "name": "amended",
        "steps": [{"name": "menu", "wait_for": "acme_menu", "action": "press_key", "args": {"key": "1"}}],
    }
    lesson = Reply("teach", phase="acme_menu", text=r"1\) Network")
    state, sent = play(tmp_path, [lesson, Reply("amend", playbook=amended, resume_at=0)])
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:1"])
    assert "acme_menu" in load_recognisers([tmp_path / "phases"]).phases


def test_a_lesson_never_hides_an_alarm(tmp_path: Path) -> None:
    play(tmp_path, [Reply("teach", phase="os_running", text="ACME")])
    for lines, alarm in ((PANIC, "crash_screen"), (STOPPED, "installer_error")):
        ladder = Ladder(load_recognisers([tmp_path / "phases"]))
        assert ladder.read(Readings(at=1.0, frame=Frame(text(lines), 1.0, 1))).phase == alarm
    with pytest.raises(PlaybookError, match="is an alarm"):
        play(tmp_path / "on", [TEACH], pixels=text(PANIC))


def test_an_agent_teaches_only_what_nothing_recognises(tmp_path: Path) -> None:
    login = text(["Debian GNU/Linux 12 lab tty1", "", "lab login:"])
    lesson = Reply("teach", phase="os_running", text="lab login:")
    with pytest.raises(PlaybookError, match="login_prompt already"):
        play(tmp_path / "agent", [lesson], pixels=login, by="agent")
    state, _ = play(tmp_path / "person", [lesson], pixels=login)
    assert state.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ("small letters", Reply("teach", phase="../x", text="ACME")),
        ("sensor of its own", Reply("teach", phase="power_off", text="ACME")),
        ("sensor of its own", Reply("teach", phase="no_signal", text="ACME")),
        ("sensor of its own", Reply("teach", phase="unknown", text="ACME")),
        ("needs a text", Reply("teach", phase="desktop")),
        ("repetition inside", Reply("teach", phase="desktop", text="(A+)+CME")),
        ("not a regular expression", Reply("teach", phase="desktop", text="(ACME")),
        ("empty screen", Reply("teach", phase="desktop", text="A*")),
        ("not on the screen", Reply("teach", phase="desktop", text="login:")),
        ("no PNG picture", Reply("teach", phase="desktop", needle=b"GIF89a")),
        ("in base64", Reply("teach", phase="desktop", needle="not base64!")),
        ("single colour", Reply("teach", phase="desktop", needle=Frame(np.zeros((9, 9), np.uint32), 0, 1).png())),
        ("agent in the guest", Reply("teach", phase="desktop", element={"role": "button"})),
        ("teaches nothing", Reply("resume", phase="desktop", text="ACME")),
    ],
)  # fmt: skip
def test_a_bad_lesson_leaves_the_run_held(tmp_path: Path, message: str, reply: Reply) -> None:
    with pytest.raises(PlaybookError, match=message):
        play(tmp_path, [reply])
    state = Ledger.open(Journal(tmp_path / "runs.sqlite"), _only(tmp_path)).state
    assert state.escalation is not None
    assert (state.lessons, kept(tmp_path / "phases")) == ((), [])
    assert describe_escalation(state, state.escalation)["replies"] == [
        "resume", "amend", "act", "teach", "abort",
    ]  # fmt: skip


def _only(tmp_path: Path) -> str:
    (run,) = Journal(tmp_path / "runs.sqlite").runs()
    return run.run_id


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "taught-x.yaml").write_text("{}")
    for name in ("../x", "x", "/etc/passwd", "os_running-0000000000", ""):
        for change in (accept, forget):
            with pytest.raises(ConfigError, match="was taught"):
                change(tmp_path / "phases", name)
    assert (tmp_path / "taught-x.yaml").exists()


def test_a_file_that_was_changed_by_hand_is_told(tmp_path: Path) -> None:
    play(tmp_path, [TEACH])
    folder = tmp_path / "phases"
    (file,) = folder.glob("*.yaml")
    content = json.loads(file.read_text())
    for broken in ("[]", "{", json.dumps({**content, "recognisers": []}), json.dumps({"taught": {}})):
        file.write_text(broken)
        with pytest.raises(ConfigError, match="not as it was written"):
            kept(folder)
