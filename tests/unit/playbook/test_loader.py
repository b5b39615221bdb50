"""Loading playbooks: what is accepted, and an error with its place for every mistake."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc.errors import PlaybookError
from reflexarc.playbook.conditions import AllOf, AnyOf, Not, PhaseIs, TextIs, ValueIs
from reflexarc.playbook.loader import load_data, load_file, load_text
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases

GOOD = """\
name: install
vars:
  disk: vda
  password: {secret: true, description: root's}
authorize: {destructive: true, ops: [power.reset, media.mount]}
defaults: {timeout: 60}
steps:
  - name: Menu
    wait_for: [grub_menu, {text: 'GNU\\s+GRUB', highlighted: true}]
    action: press_key
    args: {key: Enter}
  - name: Again
    when: {value: "{{ disk }}", in: [vda, sda]}
    wait_for: {all: [shell_prompt, {not: crash_screen}]}
    action: reset
    destructive: true
"""


def test_yaml_is_compiled() -> None:
    playbook = load_text(GOOD, PHASES)
    first, second = playbook.steps
    assert first.wait_for == AnyOf((PhaseIs(("grub_menu",)), TextIs(r"GNU\s+GRUB", True)))
    assert first.args == {"key": "Enter", "times": 1}
    assert second.wait_for == AllOf((PhaseIs(("shell_prompt",)), Not(PhaseIs(("crash_screen",)))))
    assert second.when == ValueIs("{{ disk }}", among=("vda", "sda"))
    assert (second.authorisation, playbook.authorize) == ("power.reset", ("power.reset", "media.mount"))
    assert playbook.needs == {"keyboard", "power", "screen"}


def test_json_is_the_same_model() -> None:
    playbook = load_text(GOOD, PHASES)
    assert load_text(json.dumps(playbook.source), PHASES) == playbook
    assert load_data(playbook.source, PHASES) == playbook


def test_an_undeclared_name_is_a_required_variable() -> None:
    text = "name: x\nsteps: [{name: a, action: note, args: {text: 'on {{ host.name }}'}}]"
    assert load_text(text, PHASES).variables["host"].required


def test_a_registered_name_is_no_variable() -> None:
    text = (
        "name: x\nsteps:\n- {name: a, wait_for: grub_menu, register: r}\n"
        "- {name: b, action: note, args: {text: '{{ r.phase }}'}}"
    )
    assert load_text(text, PHASES).variables == {}


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        (("name: Again", "name: Menu"), "12:5", "step 1 has the name 'Menu' already"),
        (("grub_menu,", "grub_meun,"), "9:16", "did you mean 'grub_menu'?"),
        (("press_key", "pres_key"), "10:5", "did you mean 'press_key'?"),
        (("key: Enter", "key: Entre"), "11:12", "did you mean enter"),
        (("key: Enter", "kye: Enter"), "11:12", "did you mean 'key'?"),
        (("key: Enter", "key: ctrl+c"), "11:12", "use the action hotkey"),
        (("key: Enter", "key: Enter, times: 0"), "11:24", "between 1 and 200"),
        (("key: Enter", "key: Enter, times: 1.5"), "11:24", "whole number"),
        (("GNU\\s+GRUB", "GNU("), "9:28", "not a regular expression"),
        (("    destructive: true\n", ""), "15:5", "destructive: true"),
        (("power.reset,", "power.rest,"), "5:38", "did you mean 'power.reset'?"),
        (("wait_for: [", "wait_fro: ["), "9:5", "did you mean 'wait_for'?"),
        (("defaults: {timeout: 60}", "defaults: {timeout: soon}"), "6:12", "is a number"),
        (("vars:\n", "vars:\n  disk: sda\n"), "4:3", "stands here twice"),
        (("secret: true,", "secret: true, default: x,"), "4:28", "no default"),
        (("name: install", "name: ''"), "1:1", "a playbook needs a name"),
        (("name: install", "name: install\nversion: 2"), "2:1", "format version 1"),
        (("in: [vda, sda]", "equals: a, matches: b"), "13:12", "exactly one of"),
        (("{not: crash_screen}", "{}"), "14:36", "exactly one of"),
        (("{{ disk }}", "{{ disk + 1 }}"), "12:5", "one dotted name"),
        (("{{ disk }}", "{{ password }}"), "12:5", "can't look at the secret"),
        (("disk: vda", "disk: [vda]"), "3:3", "text, a number or true/false"),
        (("steps:", "step:"), "7:1", "did you mean 'steps'?"),
        (("disk: vda", "disk: 2026-01-01"), "3:9", "quote it"),
        (("disk: vda", "disk: !!python/object:os.system x"), "3:9", "quote it"),
        (("name: install", "name: [install"), "2:5", "expected"),
    ],
)
def test_every_mistake_has_its_place(change: tuple[str, str], place: str, says: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(PlaybookError) as caught:
        load_text(GOOD.replace(*change, 1), PHASES, name="install.yaml")
    assert says in str(caught.value)
    assert f"{caught.value.line}:{caught.value.column}" == place
    assert str(caught.value).startswith(f"install.yaml:{place}: ")


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"name": "a"}, "neither waits"),
        ({"name": "a", "wait_for": "grub_menu", "destructive": True}, "can't be destructive"),
        ({"name": "a", "action": "hotkey", "args": {"chord": "ctrl+alt+delete"}}, "power.reset"),
        ({"name": "a", "action": "hotkey", "args": {"chord": "alt+sysrq+o"}}, "power.off"),
        ({"name": "a", "action": "press_key", "args": {"key": "power"}}, "power.shutdown"),
        ({"name": "a", "action": "press_key", "args": {"key": "{{ k }}"}}, "never substituted"),
        ({"name": "a", "action": "press_key"}, "needs the argument 'key'"),
        ({"name": "a", "args": {"key": "enter"}, "wait_for": "grub_menu"}, "has none"),
        ({"name": "a", "action": "type_text", "args": {"text": ["x"]}}, "is text"),
        ({"name": "a", "wait_for": []}, "never holds"),
        ({"name": "a", "wait_for": "unknown"}, "no phase 'unknown'"),
        ({"name": "a", "wait_for": {"text": "x" * 501}}, "longer than 500"),
        ({"name": "a", "wait_for": {"text": r"(\S+\s*)+ZZ$"}}, "repetition inside a repetition"),
        ({"name": "a", "wait_for": {"serial": "((a*)*)*b"}}, "repetition inside a repetition"),
        (
            {"name": "a", "action": "press_key", "args": {"key": "power", "times": 3}, "destructive": True},
            "one press",
        ),
        ({"name": "a", "wait_for": 7}, "a condition is"),
        ({"name": "a", "wait_for": "grub_menu", "register": "1st"}, "a word of letters"),
        ({"name": "a", "wait_for": "grub_menu", "expect": "booting"}, "has none"),
        ("a", "a step is a mapping"),
    ],
)
def test_what_a_step_must_not_be(step: object, says: str) -> None:
    with pytest.raises(PlaybookError, match=r"steps\[0\]") as caught:
        load_data({"name": "x", "steps": [step]}, PHASES)
    assert says in str(caught.value)


HUGE_NUMBER = "name: x\nsteps: [{name: a, action: note, args: {text: 0x" + "f" * 6000 + "}}]"
NO_PLAYBOOKS = [
    "",
    "[]",
    "name: x",
    HUGE_NUMBER,
    "a: &a [*a]",
    "x" * 1_000_001,
    "[" * 5000,
    "\x00",
    "{{}}: 1",
]


@pytest.mark.parametrize("text", [*NO_PLAYBOOKS, "name: x\nsteps: 7"])
def test_what_is_no_playbook_at_all(text: str) -> None:
    with pytest.raises(PlaybookError):
        load_text(text, PHASES)


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(PlaybookError, match="too many"):
        load_text("\n".join(lines), PHASES)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError, match="No such file"):
        load_file(tmp_path / "none.yaml", PHASES)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(PlaybookError, match="not UTF-8"):
        load_file(tmp_path / "latin.yaml", PHASES)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
keys = st.sampled_from(
    ["name", "steps", "vars", "authorize", "defaults", "alarm", "wait_for", "action", "args"]
)


@given(
    st.dictionaries(keys, plain, max_size=6), st.lists(st.dictionaries(keys, plain, max_size=5), max_size=3)
)
def test_any_data_is_a_playbook_or_a_clear_error(top: dict[str, object], steps: list[object]) -> None:
    data = {"name": "x", **top, "steps": steps}
    try:
        playbook = load_data(data, PHASES)
    except PlaybookError:
        return
    assert load_data(playbook.source, PHASES) == playbook


@given(st.text(max_size=300))
def test_any_text_is_a_playbook_or_a_clear_error(text: str) -> None:
    with suppress(PlaybookError):
        load_text(text, PHASES)


def test_the_demo_s_playbooks_load() -> None:
    from reflexarc.demo.machine import PLAYBOOKS

    loaded = {path.name: load_file(path, PHASES) for path in PLAYBOOKS.glob("*.yaml")}
    assert set(loaded) == {"demo.yaml", "surprise.yaml", "recover.yaml"}
    held = [step.name for step in loaded["surprise.yaml"].steps]
    assert set(held[-3:]) <= {step.name for step in loaded["recover.yaml"].steps}
    assert replace(loaded["demo.yaml"], name="x") != loaded["demo.yaml"]


def test_a_region_is_a_part_of_the_screen() -> None:
    from reflexarc.observation import ScreenText
    from reflexarc.playbook.conditions import Region

    screen = ScreenText(("abcdef", "ghi", "", "mnopqr"), ((0, 1, "bcd"), (3, 4, "qr")), columns=6)
    assert Region(rows=(-1, -1)).cut(screen).lines == ("mnopqr",)
    cut = Region(rows=(0, 1), columns=(2, 3)).cut(screen)
    assert (cut.lines, cut.highlighted) == (("cd", "i"), ((0, 0, "cd"),))
    assert Region(rows=(7, 9)).cut(screen).lines == ()
    step = {"name": "a", "wait_for": {"text": "x", "region": {"rows": [-2, -1]}}}
    loaded = load_data({"name": "x", "steps": [step]}, PHASES).steps[0].wait_for
    assert loaded == TextIs("x", region=Region(rows=(-2, -1)))
    with pytest.raises(PlaybookError, match="first, last"):
        load_data(
            {"name": "x", "steps": [{**step, "wait_for": {"text": "x", "region": {"rows": 3}}}]}, PHASES
        )


def test_the_words_on_off_yes_and_no_are_words() -> None:
    text = "name: Off\nsteps:\n  - {name: On, wait_for: grub_menu}\n  - {name: yes, wait_for: login_prompt}\n"
    playbook = load_text(text, PHASES)
    assert (playbook.name, [step.name for step in playbook.steps]) == ("Off", ["On", "yes"])
