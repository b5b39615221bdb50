"""Files of phases: what users may write, and that each mistake is named with its path and line."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from tests.unit.sensing.render import VGA

from reflexarc.errors import ConfigError
from reflexarc.sensing.ladder import Ladder, Readings
from reflexarc.sensing.recognise import load_recognisers

OWN = """
phases:
  appliance_menu: {usual_max: 20, alarm: true}
  appliance_network: {parent: appliance_menu}
recognisers:
  - phase: appliance_menu
    confidence: 0.98
    evidence:
      - {text: 'ACME console', rows: [0, 2]}
      - {text: '^\\d\\) ', count: 3}
    unless:
      - {text: 'Goodbye', where: last_line}
    complete:
      - not: {text: 'loading', where: line}
"""


def test_users_add_phases_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(OWN)
    recognisers = load_recognisers([tmp_path])
    assert recognisers.phases["appliance_menu"].usual_max == 20
    assert recognisers.phases["appliance_menu"].alarm
    assert recognisers.phases.is_a("appliance_network", "appliance_menu")
    menu = ["  ACME console", "", "1) Network", "2) Disks", "3) Shell"]
    for lines, phase, complete in (
        (menu, "appliance_menu", True),
        ([*menu, "loading"], "appliance_menu", False),
        ([*menu, "Goodbye"], "unknown", False),
        (menu[:-1], "unknown", False),
    ):
        observation = Ladder(recognisers).read(Readings(at=1.0, frame=VGA.frame(lines)))
        assert (observation.phase, observation.complete) == (phase, complete)


def test_evidence_may_stand_at_the_cursor(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text(
        "phases: {asked: {}}\n"
        "recognisers: [{phase: asked, evidence: [{text: 'Continue\\?$', where: before_cursor}]}]\n"
    )
    recognisers = load_recognisers([tmp_path])
    lines = ["some words of a program", "Continue?"]
    for cursor, phase in (((1, 10), "asked"), ((0, 30), "unknown"), (None, "unknown")):
        frame = VGA.frame(lines, cursor=cursor)
        assert Ladder(recognisers).read(Readings(at=1.0, frame=frame)).phase == phase


@pytest.mark.parametrize(
    ("line", "message", "text"),
    [
        (2, "'usual' is unknown", "phases:\n  mine: {usual: 3}\n"),
        (1, "'phase' is unknown", "phase: {}\n"),
        (3, "stands twice", "phases:\n  mine:\n    {alarm: true, alarm: false}\n"),
        (3, "declared twice", "phases:\n  mine: {}\n  mine: {}\n"),
        (2, "declared twice", "phases:\n  grub_menu: {}\n"),
        (2, "'nobody' is not a known phase", "phases:\n  mine: {parent: nobody}\n"),
        (2, "its own ancestor", "phases:\n  one: {parent: two}\n  two: {parent: one}\n"),
        (2, "more than 0", "phases:\n  mine: {usual_max: 0}\n"),
        (2, "a number is expected", "phases:\n  mine: {usual_max: long}\n"),
        (2, "true or false", "phases:\n  mine: {alarm: 1}\n"),
        (2, "a mapping is expected", "phases:\n  mine: [1]\n"),
        (1, "a list is expected", "recognisers: {}\n"),
        (2, "no phase 'nobody'", "recognisers:\n  - {phase: nobody, evidence: [{text: x}]}\n"),
        (2, "needs 'evidence'", "recognisers:\n  - {phase: booting}\n"),
        (2, "is empty", "recognisers:\n  - {phase: booting, evidence: []}\n"),
        (4, "not a regular expression", "recognisers:\n  - phase: booting\n    evidence:\n      - text: '(open'\n"),
        (1, "longer than 500", "recognisers: [{phase: booting, evidence: [{text: " + "x" * 501 + "}]}]\n"),
        (1, "repetition inside a repetition", "recognisers: [{phase: booting, evidence: [{text: '(a+)+$'}]}]\n"),
        (1, "exactly one of", "recognisers: [{phase: booting, evidence: [{where: line}]}]\n"),
        (1, "exactly one of", "recognisers: [{phase: booting, evidence: [{text: a, serial: b}]}]\n"),
        (1, "no place 'top'", "recognisers: [{phase: booting, evidence: [{text: a, where: top}]}]\n"),
        (1, "two numbers", "recognisers: [{phase: booting, evidence: [{text: a, rows: [1]}]}]\n"),
        (1, "whole number", "recognisers: [{phase: booting, evidence: [{text: a, count: 1.5}]}]\n"),
        (1, "at least 1", "recognisers: [{phase: booting, evidence: [{text: a, count: 0}]}]\n"),
        (1, "nothing beside", "recognisers: [{phase: booting, evidence: [{any: [{text: a}], count: 2}]}]\n"),
        (1, "does not go together", "recognisers: [{phase: booting, evidence: [{text: a}, {serial: b}]}]\n"),
        (1, "text is expected", "recognisers: [{phase: booting, evidence: [{text: 5}]}]\n"),
        (1, "above 0", "recognisers: [{phase: booting, confidence: 2, evidence: [{text: a}]}]\n"),
        (2, "aliases", "phases: &all {}\nrecognisers: *all\n"),
        (3, "expected", "phases:\n  mine: {}\n }\n"),
        (1, "nested more than", "recognisers: [{phase: booting, evidence: ["
            + "{not: " * 8 + "{text: a}" + "}" * 8 + "]}]\n"),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_its_place(tmp_path: Path, line: int, message: str, text: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recognisers([tmp_path])
    assert (caught.value.path, caught.value.line) == (path, line)


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_recognisers([tmp_path / "nowhere"])


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="can't be read"):
        load_recognisers([tmp_path])


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert len(load_recognisers([tmp_path]).phases) == len(load_recognisers().phases)


def test_the_shipped_files_are_what_those_of_users_must_be(tmp_path: Path) -> None:
    """They are loaded without these checks; here they pass them as if they were a user's."""
    for file in (files("reflexarc.sensing") / "phases").iterdir():
        text = file.read_bytes()
        (tmp_path / file.name).write_bytes(text.replace(b"\nphases:", b"\nphases: {}\n_phases:"))
    for file in sorted(tmp_path.glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        document.pop("_phases")
        needles = {f"own_{name}": needle for name, needle in document.pop("needles", {}).items()}
        renamed = json.dumps({**document, "needles": needles})
        for name in needles:
            renamed = renamed.replace(f'"needle": "{name[4:]}"', f'"needle": "{name}"')
        file.write_text(renamed)
    assert len(load_recognisers([tmp_path]).of_screens) == 2 * len(load_recognisers().of_screens)
