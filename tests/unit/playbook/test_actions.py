"""The actions as playbooks write them: arguments, alternatives, and what may get into them."""

from __future__ import annotations

import pytest
from tests.unit.playbook.seeing import PHASES

from reflexarc.errors import PlaybookError
from reflexarc.machine.capabilities import BootDevice, Button
from reflexarc.machine.policy import OPERATIONS, effect_class, is_destructive
from reflexarc.observation import Phases
from reflexarc.playbook.actions import ACTIONS
from reflexarc.playbook.loader import load_data
from reflexarc.playbook.model import Playbook, Step
from reflexarc.runs.performing import ACTS


def load(*steps: dict[str, object], **top: object) -> Playbook:
    named = [{"name": f"step {i}", **step} for i, step in enumerate(steps)]
    return load_data({"name": "test", "steps": named, **top}, Phases(PHASES))


def one(action: str, *, destructive: bool = False, **args: object) -> Step:
    return load({"action": action, "args": args, "destructive": destructive}).steps[0]


def test_every_action_has_an_operation_that_is_listed_and_something_that_performs_it() -> None:
    for name, action in ACTIONS.items():
        assert action.operation is None or action.operation in OPERATIONS, name
        assert action.name in ACTS or action.name == "wait"
    assert {action.name for action in ACTIONS.values()} - {"wait"} == set(ACTS)


@pytest.mark.parametrize(
    ("action", "operation", "group", "destructive"),
    [
        ("click", "pointer.click", "input", False),
        ("double_click", "pointer.click", "input", False),
        ("move", "pointer.move", "input", False),
        ("drag", "pointer.drag", "input", False),
        ("scroll", "pointer.scroll", "input", False),
        ("ax_press", "accessibility.action", "input", False),
        ("ax_action", "accessibility.action", "input", False),
        ("ax_set_value", "accessibility.set_value", "input", False),
        ("ax_focus", "accessibility.focus", "input", False),
        ("launch_app", "apps.launch", "input", False),
        ("exec", "shell.exec", "shell", False),
        ("run_serial", "console.run", "shell", False),
        ("upload", "files.write", "files", False),
        ("download", "files.read", "files", False),
        ("power_on", "power.on", "power", False),
        ("shutdown", "power.shutdown", "power", True),
        ("hard_off", "power.off", "power", True),
        ("reset", "power.reset", "power", True),
        ("hard_cycle", "power.cycle", "power", True),
        ("mount_iso", "media.mount", "media", True),
        ("msd_disconnect", "media.eject", "media", True),
        ("eject", "media.eject", "media", True),
        ("set_boot_device", "boot.set_device", "boot", True),
        ("snapshot", "snapshot.save", "snapshot", False),
        ("rollback", "snapshot.restore", "snapshot", True),
        ("freeze", "freeze.on", "freeze", False),
        ("unfreeze", "freeze.off", "freeze", False),
    ],
)
def test_operations_are_as_the_tables_say(action: str, operation: str, group: str, destructive: bool) -> None:
    assert ACTIONS[action].operation == operation
    assert (effect_class(operation), is_destructive(operation)) == (group, destructive)


def test_choices_are_what_the_machine_knows() -> None:
    assert set(ACTIONS["set_boot_device"].arguments["device"].choices) == set(BootDevice)
    assert set(ACTIONS["click"].arguments["button"].choices) == set(Button)


def test_an_alias_is_the_action_it_stands_for() -> None:
    assert one("eject", destructive=True).action == "msd_disconnect"


def test_pixels_stay_whole_and_shares_stay_shares() -> None:
    assert {k: one("click", x=1, y=0.5).args[k] for k in ("x", "y")} == {"x": 1, "y": 0.5}
    share = one("click", x=1.0, y=1).args["x"]
    assert (share, type(share)) == (1.0, float)
    pixels = one("click", x=7.0, y=1).args["x"]
    assert (pixels, type(pixels)) == (7, int)


def test_one_status_may_stand_alone() -> None:
    assert one("exec", command="ls", ok_codes=3).args["ok_codes"] == (3,)


@pytest.mark.parametrize(
    ("action", "args", "says"),
    [
        ("click", {}, "x and y or text"),
        ("click", {"x": 1}, "exactly one"),
        ("click", {"x": 1, "y": 1, "text": "OK"}, "exactly one"),
        ("click", {"x": 1.5, "y": 1}, "share of the screen"),
        ("click", {"x": -1, "y": 1}, "whole number of pixels"),
        ("click", {"x": True, "y": 1}, "whole number of pixels"),
        ("click", {"needle": "ok.png"}, "a picture is a file beside"),
        ("click", {"needle": "ok.png", "image": "?"}, "PNG file in base64"),
        ("click", {"x": 1, "y": 1, "image": "?"}, "stands beside needle"),
        ("click", {"element": {"enabled": True}}, "at least one of: role, name, value, text"),
        ("click", {"element": {"role": "button", "nam": "OK"}}, "did you mean 'name'"),
        ("ax_press", {}, "needs a ref, or at least one of: role, name, value, text"),
        ("ax_press", {"enabled": True}, "needs a ref, or"),
        ("ax_press", {"name": ""}, "1 to 1000 characters"),
        ("ax_press", {"name": "OK", "ref": "{{ it.ref }}"}, "either a ref or"),
        ("ax_press", {"ref": "17"}, "what an earlier step registered"),
        ("ax_press", {"ref": "{{ it.name }}"}, "what an earlier step registered"),
        ("ax_action", {"name": "OK"}, "needs the argument 'action'"),
        ("ax_set_value", {"name": "Name"}, "needs the argument 'value'"),
        ("ax_set_value", {"name": "Name", "value": []}, "text, a number or true/false"),
        ("ax_set_value", {"value": "x"}, "at least one of: role, name, text"),
        ("click", {"text": "("}, "not a regular expression"),
        ("click", {"x": 1, "y": 1, "button": "lefd"}, "did you mean 'left'"),
        ("drag", {"x": 1, "y": 1}, "to_x and to_y"),
        ("scroll", {"dy": 101}, "between -100 and 100"),
        ("exec", {}, "command or argv"),
        ("exec", {"command": "ls", "argv": ["ls"]}, "exactly one"),
        ("exec", {"argv": []}, "a list of 1 to"),
        ("exec", {"argv": ["ls", 1]}, "list of texts"),
        ("exec", {"command": "ls", "env": {"A": 1}}, "A is text"),
        ("exec", {"command": "ls", "env": {"A=B": "x"}}, "a name is letters"),
        ("exec", {"command": "ls", "ok_codes": [256]}, "from 0 to 255"),
        ("exec", {"command": "ls", "ok_codes": ["0"]}, "whole numbers"),
        ("run_serial", {}, "needs the argument 'command'"),
        ("upload", {"source": "a"}, "needs the argument 'target'"),
        ("snapshot", {}, "needs the argument 'name'"),
        ("freeze", {"name": "x"}, "no key of the arguments of freeze"),
    ],
)
def test_what_an_argument_must_not_be(action: str, args: dict[str, object], says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        load({"action": action, "args": args})


@pytest.mark.parametrize(
    "step",
    [
        {"action": "exec", "args": {"command": "echo {{ got.stdout }}"}},
        {"action": "run_serial", "args": {"command": "echo {{ got.text }}"}},
    ],
)
def test_a_result_never_gets_into_a_command(step: dict[str, object]) -> None:
    with pytest.raises(PlaybookError, match="came from the machine"):
        load({"wait_for": "grub_menu", "register": "got"}, step)


@pytest.mark.parametrize(
    "step",
    [
        {"action": "mount_iso", "args": {"source": "{{ got.match }}"}, "destructive": True},
        {"action": "upload", "args": {"source": "{{ got.match }}", "target": "/x"}},
        {"action": "download", "args": {"source": "/x", "target": "a/{{ got.match }}"}},
    ],
)
def test_a_result_never_names_a_file_of_the_host(step: dict[str, object]) -> None:
    with pytest.raises(PlaybookError, match="names no file of this host"):
        load({"wait_for": "grub_menu", "register": "got"}, step)


def test_a_result_gets_into_env_and_argv_and_a_variable_into_a_command() -> None:
    book = load(
        {"wait_for": "grub_menu", "register": "got"},
        {"action": "exec", "args": {"argv": ["echo", "{{ got.text }}"], "env": {"A": "{{ got.text }}"}}},
        {"action": "exec", "args": {"command": "echo {{ name }}"}},
    )
    assert set(book.variables) == {"name"}


def test_values_never_get_into_keys() -> None:
    with pytest.raises(PlaybookError, match="written out"):
        one("hotkey", chord="ctrl+{{ key }}")


def test_what_is_destructive_has_to_say_so() -> None:
    with pytest.raises(PlaybookError, match=r"media\.mount, which is destructive"):
        one("mount_iso", source="x.iso")


def test_capabilities_follow_from_the_steps_that_are_ahead() -> None:
    book = load(
        {"action": "exec", "args": {"command": "ls"}},
        {"action": "click", "args": {"x": 1, "y": 1}},
        {"action": "freeze"},
        requires=["apps"],
        on_failure={"rollback": "clean"},
    )
    assert book.needs == {"apps", "shell", "pointer", "screen", "freeze", "snapshot"}
    assert book.needs_from(2) == {"apps", "freeze", "snapshot"}


def test_a_step_to_begin_with_is_a_name_or_an_index() -> None:
    book = load({"action": "freeze"}, {"action": "unfreeze"})
    assert [book.start_index(at) for at in ("step 1", "1", 1, "step 0", "0")] == [1, 1, 1, 0, 0]
    for wrong, says in (("step 7", "did you mean"), ("2", "steps 0 to 1"), (-1, "steps 0 to 1")):
        with pytest.raises(PlaybookError, match=says):
            book.start_index(wrong)
