"""Conditions that look for a picture: loading, judging, and runs that wait for one."""

from __future__ import annotations

import asyncio
import base64
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.played import BOOT, lab, text

from reflexarc.drivers.replay.script import Entry, Reaction, ReplayScript
from reflexarc.errors import OperationTimeoutError, PlaybookError
from reflexarc.machine.capabilities import PowerState
from reflexarc.machine.frame import Frame, Pixels
from reflexarc.observation import Observation
from reflexarc.playbook.conditions import NeedleIs, Not, Sight, evaluate, leaves, spell
from reflexarc.playbook.loader import load_data, load_file
from reflexarc.playbook.state import Outcome, RunState
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.sensing.pictures import load_frame
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases
SCREEN = load_frame(Path(__file__).parents[2] / "screens" / "di_graphical_partitioning.png").pixels
LOGO = SCREEN[120:250, 10:240]
PNG = Frame(np.ascontiguousarray(LOGO), 0.0, 1).png()
IMAGE = base64.b64encode(PNG).decode()

PLAYBOOK = """
name: picture
steps:
  - name: Banner
    wait_for: {needle: logo.png, region: [0, 100, 400, 200]}
    action: press_key
    args: {key: enter}
    expect: {not: {needle: logo.png}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    (tmp_path / "books/logo.png").write_bytes(PNG)
    (tmp_path / "books/picture.yaml").write_text(PLAYBOOK)
    return tmp_path / "books"


def judged(
    condition: object, needles: tuple[tuple[str, bool], ...], *, strict: bool = False
) -> tuple[bool, bool]:
    seen = Observation("unknown", 0.0, "none", at=1.0, changed_at=1.0, needles=needles)
    sight = Sight(seen, 2.0, 0.0, 0, 0.8, PHASES, {}, strict)
    verdict = evaluate(condition, sight)  # type: ignore[arg-type]
    return verdict.holds, verdict.unsure


def test_a_playbook_carries_the_pictures_beside_it(folder: Path) -> None:
    playbook = load_file(folder / "picture.yaml", PHASES)
    (folder / "logo.png").unlink()
    assert load_data(playbook.source, PHASES) == playbook
    step = playbook.steps[0]
    assert step.wait_for == NeedleIs("logo.png", IMAGE, (0, 100, 400, 200), 0.95)
    assert playbook.needs == {"keyboard", "screen"}
    assert spell(step.expect) == "not the picture logo.png"


@pytest.mark.parametrize(
    ("message", "needle"),
    [
        ("no picture", "{needle: other.png}"),
        ("not in the folder", "{needle: ../secret.png}"),
        ("not in the folder", "{needle: /etc/passwd}"),
        ("not in the folder", "{needle: link.png}"),
        ("no PNG picture", "{needle: words.png}"),
        ("does not fit", "{needle: logo.png, region: [0, 0, 20, 20]}"),
        ("in pixels", "{needle: logo.png, region: [0, 0, 2000000, 2000000]}"),
        ("in pixels", "{needle: logo.png, region: [0, 0]}"),
        ("between 0.5 and 1", "{needle: logo.png, threshold: 0.2}"),
        ("did you mean 'threshold'", "{needle: logo.png, treshold: 0.9}"),
        ("in base64", "{needle: logo.png, image: '!'}"),
        ("needs a needle", "{needle: '', image: ''}"),
    ],
)
def test_each_mistake_is_named_with_its_place(folder: Path, message: str, needle: str) -> None:
    (folder.parent / "secret.png").write_bytes(PNG)
    os.symlink(folder.parent / "secret.png", folder / "link.png")
    (folder / "words.png").write_text("words")
    file = folder / "wrong.yaml"
    file.write_text(f"name: x\nsteps:\n  - name: a\n    wait_for: {needle}\n")
    with pytest.raises(PlaybookError, match=message) as caught:
        load_file(file, PHASES)
    assert (caught.value.path, caught.value.line) == (str(file), 4)


def test_a_picture_by_name_alone_is_refused_where_there_is_no_file_beside_it() -> None:
    with pytest.raises(PlaybookError, match="give its PNG in base64"):
        load_data({"name": "x", "steps": [{"name": "a", "wait_for": {"needle": "logo.png"}}]}, PHASES)


def test_what_was_not_looked_for_can_not_be_told_nor_its_opposite() -> None:
    needle = NeedleIs("logo.png", IMAGE)
    other = replace(needle, threshold=0.9)
    assert needle.key != other.key
    for strict in (False, True):
        assert judged(needle, ((needle.key, True),), strict=strict) == (True, False)
        assert judged(needle, ((needle.key, False),), strict=strict) == (False, False)
        assert judged(Not(needle), ((needle.key, False),), strict=strict) == (True, False)
        assert judged(Not(needle), ((other.key, False),), strict=strict) == (False, True)


def play(
    state: Path, playbook: Path | dict[str, object], frames: list[tuple[float, Pixels]]
) -> tuple[RunState, list[str]]:
    async def go() -> tuple[RunState, list[str]]:
        entries = tuple(Entry(at, pixels) for at, pixels in frames)
        left = Reaction((Entry(0.02, text(BOOT)),), key="enter")
        script = ReplayScript(entries=entries, reactions=(left,), power=PowerState.ON, speed=1.0)
        async with lab(state, script) as it:
            run = await it.session.begin(playbook, grant=["power.off"])
            await run.drive()
            return run.state, it.sent()

    return asyncio.run(go())


def test_a_run_waits_for_a_picture_and_its_journal_tells_it_again(tmp_path: Path, folder: Path) -> None:
    state, sent = play(tmp_path, folder / "picture.yaml", [(0.0, text(BOOT)), (0.4, SCREEN)])
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:enter"])
    (folder / "logo.png").unlink()
    assert Ledger.open(Journal(tmp_path / "runs.sqlite"), state.run_id).state == state


@pytest.mark.parametrize(("shown", "fires"), [(SCREEN, True), (text(BOOT), False)])
def test_a_picture_is_a_precondition(tmp_path: Path, shown: Pixels, fires: bool) -> None:
    playbook: dict[str, object] = {
        "name": "off",
        "authorize": {"destructive": True, "ops": ["power.off"]},
        "steps": [
            {
                "name": "off",
                "wait_for": {"settled": 0},
                "action": "hard_off",
                "destructive": True,
                "precondition": {"needle": "logo", "image": IMAGE, "region": [0, 100, 400, 200]},
            }
        ],
    }
    state, sent = play(tmp_path, playbook, [(0.0, shown)])
    assert (state.outcome is Outcome.SUCCEEDED, sent) == (fires, ["power.off"] if fires else [])


def test_a_session_waits_for_a_picture(tmp_path: Path) -> None:
    async def go(image: str, timeout: float) -> Observation:
        sought = {"needle": "it", "image": image, "region": [0, 100, 400, 200]}
        script = ReplayScript(entries=(Entry(0.0, SCREEN),), power=PowerState.ON, speed=1.0)
        async with lab(tmp_path, script) as it:
            return await it.session.wait_for(sought, timeout=timeout)

    assert [found for _, found in asyncio.run(go(IMAGE, 60.0)).needles] == [True]
    flipped = base64.b64encode(Frame(np.ascontiguousarray(LOGO[::-1]), 0.0, 1).png()).decode()
    with pytest.raises(OperationTimeoutError, match="in vain"):
        asyncio.run(go(flipped, 0.5))


def test_the_conditions_of_a_playbook_name_their_pictures(folder: Path) -> None:
    step = load_file(folder / "picture.yaml", PHASES).steps[0]
    named = [leaf for condition in step.conditions for leaf in leaves(condition)]
    assert [type(leaf) for leaf in named] == [NeedleIs, NeedleIs]
