"""Runs that wait for elements of a guest's tree and act on them, on a played desktop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.acting import machine
from tests.elements import PRESSED, button, desktop, field, run, shows, window
from tests.played import lab, menu

from reflexarc.drivers.replay.script import Agent, Entry, Fault, Reaction
from reflexarc.errors import CapabilityError, OperationRejectedError, PlaybookError
from reflexarc.machine.accessibility import Area, Selector
from reflexarc.playbook.state import Outcome, Reason, RunState
from reflexarc.runs.replies import Reply

SAVE: dict[str, object] = {"element": {"role": "AXButton", "name": "Save"}}
PRESS: dict[str, object] = {"action": "ax_press", "args": {"role": "AXButton", "name": "Save"}}

RESET: dict[str, object] = {"action": "reset", "destructive": True}
BEGIN = {"role": "AXButton", "name": "Begin"}


def why(state: RunState) -> str:
    assert state.escalation is not None, state.reason
    return f"{state.escalation.reason}: {state.escalation.detail}"


class TestWaiting:
    def test_it_fires_when_the_element_comes_and_checks_what_that_led_to(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(
                later=[Entry(0.4, elements=(button("Save"),))],
                reactions=[shows(field("Saved"), on=PRESSED)],
            ),
            {"wait_for": SAVE, **PRESS, "expect": {"element": {"name": "Saved"}}, "register": "it"},
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])
        got = state.registered["it"]
        assert isinstance(got, dict)
        assert {key: got[key] for key in ("ref", "role", "name", "value", "match")} == {
            "ref": 1,
            "role": "push button",
            "name": "Save",
            "value": "",
            "match": "Save",
        }

    def test_an_element_that_goes(self, tmp_path: Path) -> None:
        _, state = run(
            tmp_path,
            desktop(button("Wait", 2), later=[Entry(0.3, elements=())]),
            {"wait_for": {"not": {"element": {"name": "Wait"}}}, "timeout": 5},
        )
        assert state.outcome is Outcome.SUCCEEDED

    @pytest.mark.parametrize(
        ("asked", "holds"),
        [
            ({"name": "Save", "enabled": False}, False),
            ({"name": "Save", "enabled": True}, True),
            ({"text": "av"}, True),
            ({"role": "push button"}, True),
            ({"name": "save"}, False),
            ({"value": "{{ word }}"}, True),
            ({"value": "50"}, True),
            ({"text": "Untold", "enabled": True}, False),
            ({"text": "Untold", "enabled": False}, False),
        ],
    )
    def test_what_is_asked_of_it(self, tmp_path: Path, asked: dict[str, object], holds: bool) -> None:
        _, state = run(
            tmp_path,
            desktop(
                button("Save"),
                field("Name", value="draft"),
                field("Volume", 21, value=50.0),
                field("Untold", 22, enabled=None),
            ),
            {"action": "assert", "args": {"that": {"element": asked}}},
            vars={"word": "draft"},
        )
        assert (state.outcome is Outcome.SUCCEEDED) is holds

    def test_a_settled_desktop_is_where_an_element_is_awaited(self, tmp_path: Path) -> None:
        _, state = run(
            tmp_path,
            desktop(window("Files"), later=[Entry(1.5, elements=(window("Files"), button("Save")))]),
            {"wait_for": SAVE, "timeout": 20},
            unknown_after=0.3,
        )
        assert state.outcome is Outcome.SUCCEEDED
        assert [(visit.phase, visit.rung) for visit in state.history][-1] == ("desktop", "accessibility")

    def test_what_was_there_before_the_act_is_no_evidence_after_it(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save"), reactions=[shows(on=PRESSED, after=0.0)]),
            {"wait_for": SAVE, **PRESS, "expect": {"not": SAVE}},
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])

    def test_it_is_repeated_only_while_the_element_is_still_there(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save")),
            {"wait_for": SAVE, **PRESS, "expect": {"element": {"name": "Saved"}}, "expect_timeout": 0.3},
        )
        assert (sent, why(state)) == ([PRESSED] * 3, "expectation_failed: ")


class TestAgent:
    def test_one_that_comes_late(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save"), agent=Agent.ABSENT, later=[Entry(0.5, agent=Agent.ANSWERS)]),
            {"wait_for": SAVE, **PRESS},
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])

    def test_acts_are_tried_again_until_it_is_there(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(
                button("Save"),
                agent=Agent.ABSENT,
                later=[Entry(0.3, agent=Agent.ANSWERS)],
                apps=frozenset({"files"}),
            ),
            {"action": "launch_app", "args": {"name": "files"}},
            PRESS,
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["apps.launch:files", PRESSED])

    def test_one_that_never_comes_fails_the_act_and_nothing_was_sent(self, tmp_path: Path) -> None:
        sent, state = run(tmp_path, desktop(button("Save"), agent=Agent.ABSENT), {**PRESS, "timeout": 0.5})
        assert (sent, state.input_sent) == ([], False)
        assert why(state) == (
            "action_failed: lab: nothing inside of the guest answers; wait until its agent runs"
        )

    def test_one_that_hangs_holds_up_no_other_sense(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save"), agent=Agent.HANGS, later=[Entry(0.2, frame=menu(0))]),
            {"wait_for": {"any": [SAVE, "grub_menu"]}, "action": "press_key", "args": {"key": "down"}},
            {"wait_for": "grub_menu", "action": "press_key", "args": {"key": "enter"}, "timeout": 3},
        )
        assert sent == ["key.down:down"]
        assert state.escalation is not None
        assert state.escalation.reason is Reason.TIMEOUT
        assert state.escalation.outline == ""

    def test_where_none_is_offered_the_run_does_not_begin(self, tmp_path: Path) -> None:
        async def begin() -> None:
            async with lab(tmp_path, machine()) as it:
                await it.session.begin({"name": "x", "steps": [{"name": "a", "wait_for": SAVE}]})

        with pytest.raises(CapabilityError, match="missing: accessibility"):
            asyncio.run(begin())


class TestActing:
    def test_more_than_one_is_refused_and_they_are_listed(self, tmp_path: Path) -> None:
        sent, state = run(tmp_path, desktop(button("Save"), button("Save", 2)), PRESS)
        assert sent == []
        assert 'there are 2 elements AXButton "Save"' in why(state)
        assert 'push button "Save" in Files > Save as; push button "Save" in Files > Save as' in why(state)

    def test_none_is_waited_for_a_moment(self, tmp_path: Path) -> None:
        sent, state = run(tmp_path, desktop(later=[Entry(0.5, elements=(button("Save"),))]), PRESS)
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])
        _, state = run(tmp_path / "none", desktop(button("Open")), PRESS)
        assert why(state) == 'action_failed: lab: there is no AXButton "Save" on its desktop'

    def test_a_value_a_focus_and_an_action(self, tmp_path: Path) -> None:
        menu_button = button("More", 5, actions=("AXPress", "AXShowMenu"))
        sent, state = run(
            tmp_path,
            desktop(field("Name"), menu_button),
            {
                "action": "ax_focus",
                "args": {"name": "Name"},
                "expect": {"element": {"name": "Name", "focused": True}},
            },
            {
                "action": "ax_set_value",
                "args": {"name": "Name", "value": "{{ who }}"},
                "expect": {"element": {"name": "Name", "value": "ada"}},
            },
            {"action": "ax_action", "args": {"name": "More", "action": "AXShowMenu"}},
            vars={"who": "ada"},
        )
        assert state.outcome is Outcome.SUCCEEDED, why(state)
        assert sent == [
            "accessibility.focus:text:Name",
            "accessibility.set_value:text:Name:ada",
            "accessibility.action:push button:More:AXShowMenu",
        ]

    def test_an_action_that_it_has_not(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save")),
            {"action": "ax_action", "args": {"name": "Save", "action": "AXPick"}},
        )
        assert (sent, "it has no action 'AXPick'; it has AXPress" in why(state)) == ([], True)

    def test_delivery_unknown_is_for_expect_to_decide(self, tmp_path: Path) -> None:
        played = desktop(button("Save"), reactions=[shows(field("Saved"), on="accessibility.action")])
        played = replace(played, faults={"accessibility.action": (Fault.LOSE_AFTER,)})
        sent, state = run(tmp_path, played, {**PRESS, "expect": {"element": {"name": "Saved"}}})
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])
        sent, state = run(tmp_path / "b", played, PRESS)
        assert (state.outcome, sent, len(state.warnings)) == (Outcome.SUCCEEDED, [PRESSED], 1)

    def test_an_element_that_is_replaced_between_finding_and_acting_is_found_again(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> list[str]:
            played = desktop(button("Save", 1))
            async with lab(tmp_path, played) as it:
                found = await it.session.accessibility.find(Selector(name="Save"))
                it.machine.play(Entry(elements=(button("Save", 2),)))
                with pytest.raises(OperationRejectedError) as error:
                    await it.session.accessibility.act(found.elements[0].ref, "AXPress")
                assert error.value.code == "stale_ref"
                assert (await it.session.ax.press(Selector(name="Save"))).ref == 2
                return it.sent()

        assert asyncio.run(scenario()) == [PRESSED]

    def test_a_secret_value_is_written_nowhere(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(field("Password")),
            {
                "action": "ax_set_value",
                "args": {"name": "Password", "value": "{{ pw }}"},
                "expect": {"element": {"name": "Password", "text": "sesame"}},
                "register": "it",
            },
            {"wait_for": {"element": {"text": "sesame"}}, "register": "seen"},
            {"wait_for": {"element": {"text": "never"}}, "timeout": 0.3},
            secrets={"pw": "open sesame"},
        )
        assert sent == ["accessibility.set_value:text:Password:open sesame"]
        assert state.registered["seen"]["value"] == "********"  # type: ignore[index]
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"open sesame" not in path.read_bytes(), path

    @pytest.mark.parametrize("name", ["open sesame", "open"])
    def test_no_picture_is_kept_of_a_hold_whose_outline_shows_a_secret(
        self, tmp_path: Path, name: str
    ) -> None:
        """No reader reads a desktop's picture; its tree tells what is on it."""
        _, state = run(
            tmp_path,
            desktop(field(name)),
            {"wait_for": {"element": {"text": "never"}}, "timeout": 0.3},
            secrets={"pw": "open sesame"},
        )
        assert state.escalation is not None
        assert state.escalation.outline is not None
        shown = name == "open"
        assert ("********" in state.escalation.outline) is not shown
        assert (state.escalation.frame is not None) is shown
        pictures = [path for path in tmp_path.rglob("*") if path.suffix in (".png", ".webp")]
        assert bool(pictures) is shown


class TestRefs:
    def test_one_that_this_run_registered(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save", 7)),
            {"wait_for": SAVE, "register": "it"},
            {"action": "ax_press", "args": {"ref": "{{ it.ref }}"}},
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, [PRESSED])

    def test_one_that_has_gone_is_refused(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(
                button("Save", 7), reactions=[Reaction((Entry(elements=(button("Save", 8),)),), key="down")]
            ),
            {"wait_for": SAVE, "register": "it"},
            {"action": "press_key", "args": {"key": "down"}},
            {"action": "ax_press", "args": {"ref": "{{ it.ref }}"}},
        )
        assert (sent, "read the tree again" in why(state)) == (["key.down:down"], True)

    def test_a_variable_is_none(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save", 7)),
            {"action": "exec", "args": {"command": "true"}, "register": "it"},
            {"action": "ax_press", "args": {"ref": "{{ it.ref }}"}},
        )
        assert (sent, state.escalation and state.escalation.step_name) == (["shell.exec:true"], "step 0")

    def test_one_of_an_earlier_process_means_nothing(self, tmp_path: Path) -> None:
        steps = [
            {"name": "find", "wait_for": SAVE, "register": "it"},
            {"name": "stop", "wait_for": {"element": {"name": "never"}}, "timeout": 0.2},
            {"name": "press", "action": "ax_press", "args": {"ref": "{{ it.ref }}"}},
        ]

        async def first() -> str:
            async with lab(tmp_path, desktop(button("Save", 7))) as it:
                begun = await it.session.begin({"name": "two", "steps": steps})
                await begun.drive()
                begun.release()
                return begun.id

        async def second(run_id: str) -> tuple[list[str], RunState]:
            async with lab(tmp_path, desktop(button("Delete", 7))) as it:
                taken = it.session.take_up(run_id)
                amended = {"name": "two", "steps": [steps[0], steps[2]]}
                taken.reply(Reply("amend", playbook=amended, resume_at="press"))
                state = await taken.drive()
                taken.release()
                return it.sent(), state

        sent, state = asyncio.run(second(asyncio.run(first())))
        assert (sent, "found by an earlier process" in why(state)) == ([], True)


class TestAiming:
    def test_a_click_goes_to_the_middle_of_what_shows(self, tmp_path: Path) -> None:
        half_out = button("Edge", 3, area=Area(600, 470, 200, 200))
        sent, state = run(
            tmp_path,
            desktop(button("Save"), half_out),
            {"action": "click", "args": {"element": {"name": "Save"}}},
            {"action": "move", "args": {"element": {"role": "push button", "name": "Edge"}}},
        )
        assert state.outcome is Outcome.SUCCEEDED, why(state)
        moves = [one for one in sent if one.startswith("pointer.move")]
        assert moves == ["pointer.move:140,50", "pointer.move:620,475"]

    @pytest.mark.parametrize(
        ("area", "says"),
        [
            (None, "has no place on the screen"),
            (Area(5000, 0, 9, 9), "is not on its screen of 640x480"),
        ],
    )
    def test_nothing_is_sent_where_it_is_nowhere(self, tmp_path: Path, area: Area | None, says: str) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Save", area=area)),
            {"action": "click", "args": {"element": {"name": "Save"}}},
        )
        assert (sent, says in why(state)) == ([], True)


class TestPrecondition:
    def test_an_element_is_evidence(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Restart")),
            {**RESET, "precondition": {"element": {"name": "Restart"}}},
            grant=["power.reset"],
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["power.reset"])

    @pytest.mark.parametrize("agent", [Agent.ANSWERS, Agent.ABSENT, Agent.HANGS])
    @pytest.mark.parametrize("negated", [False, True])
    def test_what_can_t_be_told_withholds(self, tmp_path: Path, agent: Agent, negated: bool) -> None:
        there = negated or agent is not Agent.ANSWERS
        condition: dict[str, object] = {"element": {"name": "Restart"}}
        sent, state = run(
            tmp_path,
            desktop(*([button("Restart")] if there else []), agent=agent),
            {**RESET, "precondition": {"not": condition} if negated else condition},
            grant=["power.reset"],
        )
        assert (sent, why(state)) == (
            [],
            "precondition_mismatch: the precondition does not hold on fresh evidence",
        )

    def test_a_desktop_that_answers_speaks_against_a_boot_menu(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(window("Files"), pixels=menu(0)),
            {**RESET, "wait_for": "grub_menu"},
            grant=["power.reset"],
        )
        assert sent == []
        assert "another of its signals says desktop" in why(state)


class TestTeaching:
    def test_a_hold_shows_the_outline_and_an_element_teaches(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Begin")),
            {"wait_for": "os_running", "action": "press_key", "args": {"key": "1"}},
            replies=[Reply("teach", phase="os_running", element=BEGIN)],
            unknown_after=0.2,
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:1"])
        assert state.history[-1].rung == "accessibility"
        kept = next((tmp_path / "phases").glob("taught-*.yaml")).read_text()
        assert '"element"' in kept

    @pytest.mark.parametrize(
        ("element", "says"),
        [
            ({"role": "AXButton"}, "is not in the outline"),
            ({"name": "Gone"}, "is not in the outline"),
            ({"name": "Begin", "enabled": True}, "enabled can't be taught"),
            ({"nam": "Begin"}, "did you mean 'name'"),
            ({"name": "{{ x }}"}, "written out"),
        ],
    )
    def test_what_is_no_lesson(self, tmp_path: Path, element: dict[str, object], says: str) -> None:
        with pytest.raises(PlaybookError, match=says):
            run(
                tmp_path,
                desktop(button("Begin")),
                {"wait_for": "os_running"},
                replies=[Reply("teach", phase="os_running", element=element)],
                unknown_after=0.2,
            )

    def test_an_agent_s_lesson_is_no_precondition(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            desktop(button("Begin")),
            {"wait_for": "os_running", "action": "hard_off", "destructive": True},
            replies=[Reply("teach", phase="os_running", element=BEGIN)],
            grant=["power.off"],
            by="agent",
            unknown_after=0.2,
        )
        assert (sent, why(state).partition(":")[0]) == ([], "precondition_mismatch")
