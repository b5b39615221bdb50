"""Warnings: each rule on what it warns of and on what it must leave alone, with its place and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.unit.playbook.test_schema import playbooks, refusal

from reflexarc.demo.machine import PLAYBOOKS
from reflexarc.errors import PlaybookError
from reflexarc.playbook.document import of_data, parse
from reflexarc.playbook.lint import lint, mistakes
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases

HEAD = "name: x\nauthorize: {destructive: true, ops: [power.reset]}\n"
RESET = "{name: r, wait_for: crash_screen, action: reset, destructive: true}"


def warnings(text: str) -> list[tuple[str, int | None, int | None]]:
    return [(found.code, found.line, found.column) for found in lint(parse(text, "x.yaml"), PHASES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + f"steps: [{RESET}]", []),
        (HEAD + "steps:\n- {name: r, action: reset, destructive: true}", [("unverified", 4, 13)]),
        (
            HEAD + "steps:\n- {name: r, wait_for: {settled: 3}, action: reset, destructive: true}",
            [("unverified", 4, 37)],
        ),
        (
            HEAD + "steps:\n- {name: r, action: reset, destructive: true, precondition: crash_screen}",
            [],
        ),
        ("name: x\nalarm: []\nsteps:\n- {name: a, wait_for: grub_menu}", [("no-alarm", 2, 1)]),
        ("name: x\nalarm: []\nsteps:\n- {name: a, action: note, args: {text: x}}", []),
        (
            ("name: x\nalarm: [crash_screen, grub_rescue]\nsteps:\n"
            "- {name: a, wait_for: grub_menu, passing: [grub_rescue, crash_screen]}"),
            [("no-alarm", 4, 34)],
        ),
        (
            ("name: x\nalarm: [crash_screen, grub_rescue]\nsteps:\n"
            "- {name: a, wait_for: grub_menu, passing: [grub_rescue]}"),
            [],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: type_text, args: {text: x, enter: true}}\n"
            "- {name: b, action: press_key, args: {key: Return}}"),
            [("enter-twice", 4, 13)],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: type_text, args: {text: x, enter: true}}\n"
            "- {name: b, wait_for: login_prompt, action: press_key, args: {key: enter}}"),
            [],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: type_text, args: {text: x, enter: true}, expect: login_prompt}\n"
            "- {name: b, action: press_key, args: {key: enter}}"),
            [],
        ),
        (
            ('name: x\nsteps:\n- {name: a, action: type_text, args: {text: "x\\n"}}\n'
            "- {name: b, action: hotkey, args: {chord: kp-enter}}"),
            [("enter-twice", 4, 13)],
        ),
        (
            'name: x\nsteps:\n- {name: a, action: type_text, args: {text: "x\\n", enter: true}}',
            [("enter-twice", 3, 52)],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: press_key, args: {key: enter}}\n"
            "- {name: b, action: press_key, args: {key: enter}}"),
            [],
        ),
        ("name: x\nsteps:\n- {name: a, wait_for: installer_complete, timeout: 600}", [("short-timeout", 3, 43)]),
        ("name: x\nsteps:\n- {name: a, wait_for: installer_complete, timeout: 7200}", []),
        ("name: x\nsteps:\n- {name: a, wait_for: grub_menu, timeout: 5}", []),
        (
            "name: x\ndefaults: {timeout: 60}\nsteps:\n- {name: a, wait_for: [grub_menu, installer_progress]}",
            [("short-timeout", 4, 13)],
        ),
        (
            "name: x\nauthorize: {destructive: true, ops: [power, media.eject]}\n" + f"steps: [{RESET}]",
            [("needless-op", 2, 45)],
        ),
        (
            "name: x\nauthorize: {ops: [power.reset]}\n" + f"steps: [{RESET}]",
            [("authorizes-nothing", 2, 1), ("not-authorized", 3, 43)],
        ),
        (f"name: x\nsteps:\n- {RESET}", [("not-authorized", 3, 37)]),
        (
            "name: x\nsteps:\n- {name: a, wait_for: grub_menu, action: press_key, args: {key: a}, destructive: true}",
            [("not-authorized", 3, 34)],
        ),
        ("name: x\nvars:\n  disk: vda\nsteps:\n- {name: a, wait_for: grub_menu}", [("unused-variable", 3, 3)]),
        (
            "name: x\nvars: {disk: vda}\nsteps:\n- {name: a, action: note, args: {text: 'on {{ disk }}'}}",
            [],
        ),
        (
            "name: x\nsteps:\n- {name: a, wait_for: grub_menu, when: {value: '{{ r.phase }}', equals: x}}",
            [("unregistered", 3, 34)],
        ),
        (
            ("name: x\nsteps:\n- {name: a, wait_for: grub_menu, register: r}\n"
            "- {name: b, wait_for: grub_menu, when: {value: '{{ r.phase }}', equals: x}}"),
            [],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: fail, args: {message: stop}}\n- {name: b, wait_for: grub_menu}\n"
            "- {name: c, wait_for: grub_menu}"),
            [("unreachable", 4, 3)],
        ),
        (
            ("name: x\nsteps:\n- {name: a, action: fail, args: {message: stop}, when: crash_screen}\n"
            "- {name: b, wait_for: grub_menu}"),
            [],
        ),
    ],
)  # fmt: skip
def test_a_rule(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert warnings(text) == expected


def test_a_warning_says_what_to_do() -> None:
    (found,) = lint(
        of_data({"name": "x", "steps": [{"name": "a", "wait_for": "installer_complete", "timeout": 60}]}),
        PHASES,
    )
    assert found.message == "'a' waits 60 s for installer_complete, which may well take 7200 s"
    assert found.remedy == "give it at least 7200 s, or leave the timeout out"
    assert (found.line, found.column) == (None, None)


def test_our_own_playbooks_are_clean() -> None:
    for path in PLAYBOOKS.glob("*.yaml"):
        assert warnings(path.read_text()) == [], path.name


def test_every_mistake_that_can_be_told_apart() -> None:
    text = "name: x\nsteps:\n- {name: a, wait_for: grub_meun}\n- {name: b}\n- {name: c, action: rset}"
    found = mistakes(parse(text, "x.yaml"), PHASES)
    assert [(error.line, error.column) for error in found] == [(3, 13), (4, 4), (5, 13)]
    assert "did you mean 'grub_menu'?" in str(found[0])
    assert "did you mean 'reset'?" in str(found[2])
    assert mistakes(parse("name: x\nsteps: 7"), PHASES)[0].line == 2
    assert mistakes(parse("name: x\nsteps: [{name: a, wait_for: grub_menu}]"), PHASES) == []


@given(playbooks())
def test_any_playbook_can_be_linted(data: dict[str, Any]) -> None:
    if refusal(data) is None:
        assert all(found.message and found.remedy for found in lint(of_data(data), PHASES))
    else:
        with pytest.raises(PlaybookError):
            lint(of_data(data), PHASES)
