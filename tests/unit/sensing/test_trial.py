"""Trying labelled screens: what counts as right, as wrong and as an error of reading, and broken folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.sensing.render import VGA, grub_menu

from reflexarc.errors import ConfigError
from reflexarc.sensing.explain import explain
from reflexarc.sensing.recognise import load_recognisers
from reflexarc.sensing.trial import character_errors, judge, labels, summary

RECOGNISERS = load_recognisers()
LANGUAGE = ["", " ┌──────┤ [!!] Select a language ├──────┐", " │ English                            │"]


def folder(tmp_path: Path) -> Path:
    VGA.frame(["lab login:"]).image().save(tmp_path / "login.png")
    (tmp_path / "login.txt").write_text("lab login:\n")
    grub_menu().image().save(tmp_path / "menu.png")
    VGA.frame(LANGUAGE).image().save(tmp_path / "language.png")
    VGA.frame(["words of a program"]).image().save(tmp_path / "program.png")
    (tmp_path / "program.txt").write_text("wards of a program\n")
    return tmp_path


def figures(place: Path) -> dict[str, object]:
    return summary(judge(labels(place), RECOGNISERS))


def test_the_figures_of_a_trial(tmp_path: Path) -> None:
    place = folder(tmp_path)
    phases = {"login": "login_prompt", "menu": None, "language": "installer_welcome", "program": None}
    (place / "phases.json").write_text(json.dumps(phases))
    found = figures(place)
    assert {name: found[name] for name in ("n", "answered", "right", "confident_wrong", "characters")} == {
        "n": 4, "answered": 3, "right": 2, "confident_wrong": 1, "characters": 28,
    }  # fmt: skip
    assert found["cer"] == pytest.approx(1 / 28)
    assert found["confusion"] == {
        "installer_welcome": {"installer_language": 1},
        "login_prompt": {"login_prompt": 1},
        "none": {"grub_menu": 1, "unknown": 1},
    }
    assert found["mistakes"] == [{"file": "menu.png", "phase": None, "answer": "grub_menu"}]


def test_an_index_of_lines_names_files_by_themselves(tmp_path: Path) -> None:
    place = folder(tmp_path)
    entries = [
        {"file": "login.png", "phase": "shell_prompt", "tags": ["x"]},
        {"file": "menu.png", "phase": "grub_menu"},
    ]
    (place / "index.jsonl").write_text("\n".join(map(json.dumps, entries)) + "\n\n")
    found = figures(place)
    assert (found["n"], found["right"], found["confident_wrong"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("truth", "read", "errors"),
    [
        ("abc", "abc", (0, 3)),
        ("abc", "axc", (1, 3)),
        ("abc", "", (3, 3)),
        ("  abc\n   d  \n\n", "abc d", (0, 5)),
        ("┌──┐\n│ab│\n└──┘", "ab", (0, 2)),
        ("kitten", "sitting", (3, 6)),
    ],
)
def test_character_errors_are_edits_and_layout_is_no_text(
    truth: str, read: str, errors: tuple[int, int]
) -> None:
    assert character_errors(truth, read) == errors


@pytest.mark.parametrize(
    ("message", "files"),
    [
        ("neither index.jsonl nor phases.json", {}),
        ("not JSON", {"phases.json": "{"}),
        ("an object with a phase", {"phases.json": "[]"}),
        ("names no pictures", {"phases.json": "{}"}),
        ("neither a text nor null", {"phases.json": '{"a": 5}'}),
        ("no file of this folder", {"phases.json": '{"../a": "booting"}'}),
        ("no file of this folder", {"index.jsonl": '{"file": "/etc/passwd", "phase": null}'}),
        ("`file` and `phase`", {"index.jsonl": '{"file": "a.png"}'}),
        ("index.jsonl:2: this is not JSON", {"index.jsonl": '{"file": "a.png", "phase": null}\n{'}),
        ("no such file", {"phases.json": '{"a": "booting"}'}),
        ("no picture of a screen", {"phases.json": '{"a": "booting"}', "a.png": "not a picture"}),
    ],
)
def test_broken_folders_are_told(tmp_path: Path, message: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        figures(tmp_path)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        labels(tmp_path / "nowhere")


def test_an_explanation_says_which_evidence_held() -> None:
    found = explain(grub_menu(highlight=False), RECOGNISERS)
    best = found.candidates[0]
    assert (found.observation.phase, best.phase, best.complete) == ("grub_menu", "grub_menu", False)
    assert all(held for _, held in best.evidence)
    assert not any(held for _, held in best.unless)
    assert [text for text, held in best.completing if not held] == [r"highlighted '\\w'"]
    assert "grub.yaml:" in best.place
    assert not found.candidates[-1].is_near
