"""On what evidence a destructive step fires: its own, fresh, authoritative, undisputed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.played import BOOT, LOGIN, SHELL, lab, text
from tests.played import PANIC as CRASH
from tests.unit.playbook.test_binding import RESETS, begun, only_step, seen

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.errors import SafetyError
from reflexarc.machine.capabilities import PowerState
from reflexarc.observation import Observation
from reflexarc.playbook import engine
from reflexarc.playbook.events import Intended, Observed, Verified
from reflexarc.playbook.state import Escalation, Reason, RunState, Stage

PANIC = "\r\n---[ end Kernel panic - not syncing: Fatal exception ]---\r\n"


def held_or_sent(
    tmp_path: Path, script: ReplayScript, steps: Sequence[dict[str, object]]
) -> tuple[list[str], Escalation | None]:
    """Run the steps with all of `power` granted; what was sent, and what is asked."""

    async def play() -> tuple[list[str], Escalation | None]:
        async with lab(tmp_path, script) as it:
            playbook = {
                "name": "x",
                "authorize": {"destructive": True, "ops": ["power"]},
                "steps": list(steps),
            }
            run = await it.session.begin(playbook, grant=["power"])
            await run.drive()
            return it.sent(), run.escalation

    return asyncio.run(play())


def up(*later: Entry) -> ReplayScript:
    return ReplayScript(entries=(Entry(0.0, text(SHELL)), *later), speed=1.0)


DOWN: dict[str, object] = {
    "name": "down", "wait_for": "shell_prompt", "action": "hard_off", "destructive": True, "timeout": 5,
}  # fmt: skip


def test_it_fires_where_every_signal_agrees(tmp_path: Path) -> None:
    assert held_or_sent(tmp_path, up(), [DOWN]) == (["power.off"], None)


@pytest.mark.parametrize(
    ("serial", "fires"),
    [
        (PANIC, False),
        ("\r\n(initramfs) ", False),
        ("\r\nlab login: ", True),
        ("\r\n[   99.000000] usb 1-1: new device\r\n", True),
    ],
)
def test_a_newer_word_of_the_serial_console_can_withhold_it(tmp_path: Path, serial: str, fires: bool) -> None:
    steps = [{"name": "settle", "wait_for": {"serial": "[a-z]"}, "timeout": 5}, DOWN]
    sent, held = held_or_sent(tmp_path, up(Entry(0.3, serial=serial)), steps)
    assert sent == (["power.off"] if fires else [])
    assert (held is None) is fires
    if held is not None:
        assert held.reason is Reason.PRECONDITION_MISMATCH
        assert "another of its signals says" in held.detail


def test_an_older_word_of_the_serial_console_does_not(tmp_path: Path) -> None:
    script = ReplayScript(entries=(Entry(0.0, text(BOOT), serial=PANIC), Entry(0.3, text(SHELL))), speed=1.0)
    assert held_or_sent(tmp_path, script, [DOWN]) == (["power.off"], None)


class TestAlone:
    """A step with neither precondition nor wait_for."""

    RESET: dict[str, object] = {"name": "reset", "action": "reset", "destructive": True}  # noqa: RUF012

    def test_before_any_input(self, tmp_path: Path) -> None:
        assert held_or_sent(tmp_path, up(), [self.RESET]) == (["power.reset"], None)

    def test_after_input_it_asks(self, tmp_path: Path) -> None:
        key: dict[str, object] = {"name": "key", "action": "press_key", "args": {"key": "a"}}
        sent, held = held_or_sent(tmp_path, up(), [key, self.RESET])
        assert held is not None
        assert (sent, held.reason) == (["key.down:a"], Reason.PRECONDITION_MISMATCH)

    def test_time_and_values_verify_nothing(self, tmp_path: Path) -> None:
        key: dict[str, object] = {"name": "key", "action": "press_key", "args": {"key": "a"}}
        for condition in ({"settled": 0.01}, {"value": "x", "equals": "x"}):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            sent, held = held_or_sent(folder, up(), [key, {**self.RESET, "precondition": condition}])
            assert held is not None
            assert (sent, held.reason) == (["key.down:a"], Reason.PRECONDITION_MISMATCH)

    def test_where_an_alarm_shows_it_asks(self, tmp_path: Path) -> None:
        sent, held = held_or_sent(tmp_path, ReplayScript(entries=(Entry(0.0, text(CRASH)),), speed=1.0),
                                  [self.RESET])  # fmt: skip
        assert held is not None
        assert (sent, held.reason) == ([], Reason.PRECONDITION_MISMATCH)

    def test_without_preflight_it_asks(self, tmp_path: Path) -> None:
        async def play() -> tuple[list[str], Escalation | None]:
            async with lab(tmp_path, up()) as it:
                playbook = {
                    "name": "x",
                    "authorize": {"destructive": True, "ops": ["power"]},
                    "steps": [self.RESET],
                }
                run = await it.session.begin(playbook, grant=["power"])
                it.machine.play(Entry(signal=False))
                await run.drive()
                return it.sent(), run.escalation

        sent, held = asyncio.run(play())
        assert sent == []
        assert held is not None
        assert "preflight" in held.detail


def verifying(step: dict[str, object] | None = None) -> RunState:
    playbook = {**RESETS, "steps": [{**only_step({"steps": [RESETS["steps"][0]]}), **(step or {})}]}  # type: ignore[index]
    state = engine.advance(begun(playbook, "power"), Observed(10.0, seen(10.0)))
    assert state.stage is Stage.VERIFYING
    return state


def verdict(evidence: Observation, at: float = 10.5, step: dict[str, object] | None = None) -> Stage:
    return engine.advance(verifying(step), Verified(at, evidence)).stage


GOOD = seen(10.4)


@pytest.mark.parametrize(
    ("evidence", "stage"),
    [
        (GOOD, Stage.FIRING),
        (replace(GOOD, rung="unchanged", origin="text"), Stage.FIRING),
        (replace(GOOD, rung="needle", origin="needle"), Stage.FIRING),
        (replace(GOOD, rung="vision", origin="vision"), Stage.HELD),
        (replace(GOOD, rung="unchanged", origin="vision"), Stage.HELD),
        (replace(GOOD, rung="unchanged", origin=""), Stage.HELD),
        (replace(GOOD, confidence=0.7), Stage.HELD),
        (replace(GOOD, phase="grub_menu"), Stage.HELD),
        (replace(GOOD, phase="unknown", guess="login_prompt"), Stage.HELD),
        (replace(GOOD, disputed="crash_screen"), Stage.HELD),
        (replace(GOOD, at=9.9), Stage.VERIFYING),  # from before the decision: another reading is taken
    ],
)
def test_what_counts_as_evidence(evidence: Observation, stage: Stage) -> None:
    assert verdict(evidence) is stage


@pytest.mark.parametrize(("phase", "rung"), [("power_off", "power"), ("no_signal", "signal")])
def test_off_and_no_signal_only_from_their_own_rungs(phase: str, rung: str) -> None:
    from reflexarc.observation import Phase

    state = verifying()
    state = replace(state, phases=type(state.phases)([*state.phases.values(), Phase("no_signal")]))
    step = replace(state.step, precondition=type(state.step.wait_for)((phase,)))  # type: ignore[call-arg, arg-type, misc]
    state = replace(state, playbook=replace(state.playbook, steps=(step,)))
    for origin in ("power", "signal", "serial", "text", "vision"):
        evidence = replace(GOOD, phase=phase, rung=origin, origin=origin)
        stage = engine.advance(state, Verified(10.5, evidence)).stage
        assert stage is (Stage.FIRING if origin == rung else Stage.HELD)


def test_evidence_that_grew_old_before_the_act_is_taken_anew() -> None:
    state = engine.advance(verifying(), Verified(10.5, GOOD))
    assert engine.advance(state, Intended(12.3)).stage is Stage.ACTING
    assert engine.advance(state, Intended(12.5)).stage is Stage.VERIFYING


def test_a_picture_on_a_machine_that_is_said_to_be_off_is_a_dispute() -> None:
    from reflexarc.machine.frame import Frame
    from reflexarc.sensing.ladder import Ladder, Readings
    from reflexarc.sensing.recognise import load_recognisers

    ladder = Ladder(load_recognisers())
    for pixels, disputed in ((text(LOGIN), "login_prompt"), (text([""]), "")):
        frame = Frame(pixels, 1.0, 1, True)
        evidence = Readings(at=1.0, power=PowerState.OFF, frame=frame)
        concluded = ladder.read(evidence)
        assert (concluded.phase, concluded.origin) == ("power_off", "power")
        assert ladder.disputed(concluded, evidence) == disputed
        assert ladder.disputed(concluded, replace(evidence, frame=replace(frame, signal=False))) == ""


def test_a_single_call_is_not_sent_where_preflight_fails(tmp_path: Path) -> None:
    from reflexarc.errors import MachineError

    async def play() -> None:
        async with lab(tmp_path, up(), grant=["power.reset"]) as it:
            it.machine.play(Entry(signal=False))
            with pytest.raises(MachineError, match="preflight: signal: it is on"):
                await it.session.power.reset()
            with pytest.raises(SafetyError):
                await it.session.power.off()
            it.machine.play(Entry(power=PowerState.OFF))
            await it.session.power.on()
            it.machine.play(Entry(signal=True))
            await it.session.power.reset()
            assert it.sent() == ["power.on", "power.reset"]

    asyncio.run(play())


def test_a_step_marked_destructive_is_put_to_the_guard_with_its_evidence(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = []
    step = {"name": "type", "wait_for": "shell_prompt", "action": "type_text", "args": {"text": "mkfs"},
            "destructive": True}  # fmt: skip
    script = ReplayScript(entries=(Entry(0.0, text(SHELL)),), reactions=(Reaction((), key="x"),), speed=1.0)

    async def play() -> str:
        async with lab(tmp_path, script) as it:
            it.session.machine.guard.audit = lambda line: lines.append(dict(line))
            playbook = {"name": "x", "authorize": {"destructive": True, "ops": ["step"]}, "steps": [step]}
            run = await it.session.begin(playbook, grant=["step"])
            await run.drive()
            return run.id

    run_id = asyncio.run(play())
    (marked,) = [line for line in lines if line["operation"] == "step.destructive"]
    assert (marked["run"], marked["step"], marked["action"], marked["allowed"]) == (
        run_id,
        "type",
        "type_text",
        True,
    )
    assert str(marked["evidence"]).startswith("shell_prompt (text")
    assert isinstance(marked["age"], float)
    assert 0 <= marked["age"] <= 2
    (typed,) = [line for line in lines if line["operation"] == "keyboard.type"]
    assert (typed["run"], typed["text"]) == (run_id, "mkfs")
