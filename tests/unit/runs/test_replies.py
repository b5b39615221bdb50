"""Replies that are stale, malformed or huge leave the run held; a run that asks too often fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc.errors import PlaybookError, RunError
from reflexarc.observation import Phase
from reflexarc.playbook.events import Lost, Started
from reflexarc.playbook.state import Outcome, Stage
from reflexarc.runs.journal import Journal
from reflexarc.runs.ledger import Ledger
from reflexarc.runs.replies import Reply, record_reply

STEP: dict[str, object] = {
    "name": "menu",
    "wait_for": "grub_menu",
    "action": "press_key",
    "args": {"key": "enter"},
}
PLAYBOOK: dict[str, object] = {"name": "p", "steps": [STEP]}
PHASES = (Phase("grub_menu"), Phase("unknown"))


def held(folder: Path, *, max_escalations: int = 20) -> Ledger:
    """A run that is held for the first time."""
    started = Started(1.0, "run-1", "lab", PLAYBOOK, PHASES, max_escalations=max_escalations)
    ledger = Ledger.begin(Journal(folder / "runs.sqlite"), started)
    ledger.record(Lost(2.0, "gone"))
    return ledger


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    ledger = held(tmp_path_factory.mktemp("held"))
    yield ledger
    ledger.journal.close()


def stays_held(ledger: Ledger, reply: Reply, escalation_id: Any = None) -> None:
    before, count = ledger.state, ledger.journal.count("run-1")
    with pytest.raises((PlaybookError, RunError)) as caught:
        record_reply(ledger, reply, escalation_id=escalation_id)
    assert len(str(caught.value)) < 2_000
    assert (ledger.state, ledger.journal.count("run-1")) == (before, count)
    assert ledger.state.stage is Stage.HELD


HUGE: Any = "x" * 2_000_000
DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]
ANY: dict[str, Any] = {
    "true": True, "a fraction": 1.5, "bytes": b"bytes", "an object": object(), "nested lists": [["a"]], "deep": DEEP,
}  # fmt: skip
WRONG: dict[str, dict[str, Any]] = {
    "playbook": {**ANY, "text": "text", "a list": ["a"], "a mapping": {"a": 1}, "a deep one": {"name": DEEP}},
    "resume_at": {**ANY, "a list": ["a"], "a mapping": {"a": 1}},
    "steps": {**ANY, "nothing": None, "text": "text", "texts": ["a"], "a mapping": {"a": 1}},
    "grant": {
        **ANY,
        "nothing": None,
        "text": "power.reset",
        "unknown": ["power.rest"],
        "a mapping": {"a": 1},
    },
    "reason": {**ANY, "nothing": None, "a list": ["a"], "a huge one": HUGE},
}


@pytest.mark.parametrize(
    "kind",
    [None, True, 7, "", "Resume", "explode", HUGE, ["resume"], {"kind": "resume"}],
    ids=lambda kind: str(kind)[:20],
)
def test_a_kind_that_there_is_not(ledger: Ledger, kind: Any) -> None:
    stays_held(ledger, Reply(kind))


@pytest.mark.parametrize(("field", "what"), [(field, what) for field in WRONG for what in WRONG[field]])
def test_a_field_of_another_type(ledger: Ledger, field: str, what: str) -> None:
    for reply in (
        Reply("resume"),
        Reply("amend", playbook=PLAYBOOK),
        Reply("act", steps=[{**STEP, "name": "b"}]),
    ):
        stays_held(ledger, replace(reply, **{field: WRONG[field][what]}))


@pytest.mark.parametrize("escalation_id", [0, 2, -1, 10**30, "1", "x", 1.5])
def test_an_escalation_that_is_not_open(ledger: Ledger, escalation_id: Any) -> None:
    stays_held(ledger, Reply("resume"), escalation_id)


@pytest.mark.parametrize(
    "steps",
    [
        [{"name": "x" * 900_000, "action": "note", "args": {"text": "y" * 900_000}}],
        [{"name": str(number), "action": "note", "args": {"text": "y"}} for number in range(3_000)],
        [{"name": "a", "wait_for": {"text": "(a+)+$" * 1_000}}],
        [{"name": "a", "wait_for": {"all": [DEEP]}}],
        [{"name": "a", "wait_for": "grub_menu", "timeout": float("inf")}],
        [{"name": "a", "wait_for": "grub_menu", "timeout": float("nan")}],
        [{"name": "a", "action": "note", "args": {"text": "{{ nothing }}"}}],
    ],
    ids=["long", "many", "a huge pattern", "deep", "infinite", "no number", "an unknown name"],
)
def test_steps_that_are_no_good(ledger: Ledger, steps: Any) -> None:
    stays_held(ledger, Reply("act", steps=steps))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN, PLAIN)
def test_no_data_whatever_is_a_mistake_of_ours(ledger: Ledger, playbook: Any, steps: Any) -> None:
    stays_held(ledger, Reply("amend", playbook=playbook))
    stays_held(ledger, Reply("act", steps=steps))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_run_that_asks_too_often_fails(tmp_path: Path, most: int) -> None:
    ledger = held(tmp_path, max_escalations=most)
    for number in range(1, most + 1):
        assert ledger.state.stage is Stage.HELD
        record_reply(ledger, Reply("resume"), escalation_id=number)
        ledger.record(Lost(2.0 + number, "gone again"))
    assert (ledger.state.stage, ledger.state.outcome) == (Stage.ENDED, Outcome.FAILED)
    assert ledger.state.reason == f"more than {most} escalations; the last: connection_lost"
    with pytest.raises(RunError, match="has ended"):
        record_reply(ledger, Reply("resume"))
