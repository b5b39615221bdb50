"""Grants in advance: kept, used up by one, never by what was not written as it stands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.played import PLAYBOOK, lab, script
from tests.unit.runs.test_runner import SECRETS

from reflexarc.errors import JournalError, PlaybookError, RunError, SafetyError
from reflexarc.machine.policy import Policy
from reflexarc.playbook import grants
from reflexarc.playbook.events import Granted
from reflexarc.playbook.state import Outcome, Reason, RunState
from reflexarc.runs.granting import Grant, GrantBook, MachineGrants
from reflexarc.runs.replies import Reply, record_reply
from reflexarc.runs.run import Run


def for_calls(book: GrantBook, *, seconds: float = 60, count: int = 1, **calls: str | None) -> Grant:
    named = {name.replace("_", ".", 1): value for name, value in calls.items()}
    return book.give(
        machine="lab", place="lab-1", operations=tuple(named), seconds=seconds, by="ann", calls=named, count=count
    )  # fmt: skip


def test_one_call_uses_a_grant_up(tmp_path: Path) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None)
    one, other = MachineGrants(book, "lab-1"), MachineGrants(GrantBook(tmp_path), "lab-1")
    assert other.has("power.reset", {})
    assert one.use("power.reset", {}) == f"grant {given.id} by ann"
    assert not other.has("power.reset", {})
    assert [one.use("power.reset", {}), other.use("power.reset", {})] == [None, None]
    assert book.open() == []


def test_a_count_is_kept_in_the_book(tmp_path: Path) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None, count=3)
    one, other = MachineGrants(book, "lab-1"), MachineGrants(GrantBook(tmp_path), "lab-1")
    left = []
    for machine in (one, other):
        assert machine.use("power.reset", {}) == f"grant {given.id} by ann"
        left.append([GrantBook(tmp_path).left(grant) for grant in book.open()])
    assert left == [[2], [1]]
    assert one.use("power.reset", {}) is not None
    assert [machine.use("power.reset", {}) for machine in (one, other)] == [None, None]
    assert book.open() == []


def test_what_is_left_of_a_begun_one_expires_and_is_revoked(tmp_path: Path) -> None:
    now = 1000.0
    book = GrantBook(tmp_path, lambda: now)
    for_calls(book, power_reset=None, count=3, seconds=2)
    machine = MachineGrants(book, "lab-1")
    assert machine.use("power.reset", {}) is not None
    now = 1003.0
    assert not machine.has("power.reset", {})
    assert machine.use("power.reset", {}) is None
    again = for_calls(book, power_reset=None, count=3)
    assert machine.use("power.reset", {}) is not None
    assert book.use_up(book.find(again.id), "revoked")
    assert not machine.has("power.reset", {})
    assert machine.use("power.reset", {}) is None


@pytest.mark.parametrize(
    ("operation", "details"),
    [
        ("power.off", {}),
        ("media.mount", {"source": "/images/b.iso"}),
        ("boot.set_device", {"device": "cdrom", "once": False}),
        ("boot.set_device", {"device": "disk", "once": True}),
        ("snapshot.restore", {"name": "dirty"}),
        ("snapshot.delete", {"name": "clean"}),
    ],
)
def test_a_call_that_differs_is_not_covered(
    tmp_path: Path, operation: str, details: dict[str, object]
) -> None:
    book = GrantBook(tmp_path)
    for_calls(
        book,
        power_reset=None,
        media_mount="/images/a.iso",
        boot_set_device="cdrom,once",
        snapshot_restore="clean",
    )
    machine = MachineGrants(book, "lab-1")
    assert not machine.has(operation, details)
    assert machine.use(operation, details) is None
    assert MachineGrants(book, "lab-2").use("power.reset", {}) is None
    assert machine.has("media.mount", {"source": "/images/a.iso"})
    assert machine.has("boot.set_device", {"device": "cdrom", "once": True})
    assert machine.has("snapshot.restore", {"name": "clean"})


def test_it_expires_also_for_one_who_has_found_it(tmp_path: Path) -> None:
    now = 1000.0
    book = GrantBook(tmp_path, lambda: now)
    given = for_calls(book, power_reset=None, seconds=900)
    assert book.open() == [given]
    now = 1899.0
    assert book.open() == [given]
    now = 1900.0
    assert book.open() == []
    assert not book.use_up(given, "late")
    now = 999.0  # the host's clock was put back
    assert book.open() == []


def test_a_revoked_one_is_gone_and_a_used_one_cannot_be_revoked(tmp_path: Path) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None)
    assert book.find(given.id[:4]) == given
    assert book.use_up(given, "revoked")
    assert MachineGrants(book, "lab-1").use("power.reset", {}) is None
    with pytest.raises(RunError, match="no open grant"):
        book.find(given.id)


@pytest.mark.parametrize("count", [1, 5])
def test_of_many_programs_one_wins(tmp_path: Path, count: int) -> None:
    program = (
        "import sys; from pathlib import Path; from reflexarc.runs.granting import *; "
        "machine = MachineGrants(GrantBook(Path(sys.argv[1])), 'lab-1'); sys.stdin.read(); "
        "print(sum(machine.use('power.reset', {}) is not None for _ in range(40)))"
    )
    book = GrantBook(tmp_path)
    for _ in range(20 // count):
        for_calls(book, power_reset=None, count=count)
    racers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
        racer.stdin = None
    assert sum(int(racer.communicate(timeout=60)[0]) for racer in racers) == 20


def _change(field: str, value: object, path: Path) -> None:
    sealed = json.loads(path.read_text())
    sealed["grant"] = json.dumps({**json.loads(sealed["grant"]), field: value})
    path.write_text(json.dumps(sealed))


@pytest.mark.parametrize("field", ["count", "expires", "calls", "place", "run", "id"])
def test_one_that_was_changed_is_none(tmp_path: Path, field: str) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None)
    value = {
        "count": 9,
        "expires": 9e12,
        "calls": {"power.off": None},
        "place": "lab-2",
        "run": "r",
        "id": "0a",
    }[field]
    _change(field, value, tmp_path / f"{given.id}.grant")
    assert book.open() == []


def test_a_copy_of_a_used_one_or_under_another_name_is_none(tmp_path: Path) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None)
    file = tmp_path / f"{given.id}.grant"
    kept = file.read_bytes()
    assert book.use_up(given, "somebody")
    for name in (f"{given.id}.grant", "00000000.grant"):
        (tmp_path / name).write_bytes(kept)
        (tmp_path / name).chmod(0o600)
    assert book.open() == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"grant": 1, "seal": 2}', b"\xff", b"[" * 100_000])
def test_what_is_no_grant_is_left_out(tmp_path: Path, content: bytes) -> None:
    book = GrantBook(tmp_path)
    given = for_calls(book, power_reset=None)
    (tmp_path / "0.grant").write_bytes(content)
    (tmp_path / "0.grant").chmod(0o600)
    os.mkfifo(tmp_path / "1.grant")
    assert book.open() == [given]


def test_files_are_private_and_what_others_can_write_is_none(tmp_path: Path) -> None:
    book = GrantBook(tmp_path / "grants")
    given = for_calls(book, power_reset=None)
    assert (tmp_path / "grants").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "grants").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "grants" / f"{given.id}.grant").chmod(0o620)
    assert book.open() == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "grants").write_text("")
    with pytest.raises(JournalError, match="can't keep grants"):
        for_calls(GrantBook(tmp_path / "grants"), power_reset=None)


class TestRuns:
    """Runs that are held on needs_authorization are answered by a grant."""

    def play(
        self, tmp_path: Path, replies: Sequence[Reply], **changes: object
    ) -> tuple[list[str], RunState, list[Granted]]:
        book = GrantBook(tmp_path / "grants")

        def give(run: Run) -> None:
            state = run.state
            keys = grants.granted_keys(state.playbook.steps[state.index :], ["power"], state.key_of, most=1)
            book.give(
                machine="lab", place="", operations=("power.shutdown",), seconds=60, by="ann",
                **{"run": run.id, "keys": keys, **changes},  # type: ignore[arg-type]
            )  # fmt: skip

        async def play() -> tuple[list[str], RunState, list[Granted]]:
            async with lab(tmp_path, script()) as it:
                it.session.book = book
                run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
                await run.drive()
                assert run.escalation is not None
                assert run.escalation.reason is Reason.NEEDS_AUTHORIZATION
                give(run)
                for reply in replies:
                    run.reply(reply)
                    await run.drive()
                events = it.session.journal.read(run.id).events
                return it.sent(), run.state, [event for event in events if isinstance(event, Granted)]

        return asyncio.run(play())

    def test_grant_then_resume(self, tmp_path: Path) -> None:
        sent, state, journalled = self.play(tmp_path, [Reply("resume")])
        assert (state.outcome, sent[-1]) == (Outcome.SUCCEEDED, "power.shutdown")
        assert [(event.operations, event.by) for event in journalled] == [(("power.shutdown",), "ann")]
        assert GrantBook(tmp_path / "grants").open() == []

    @pytest.mark.parametrize("changes", [{"run": "another"}, {"keys": {}}, {"run": ""}])
    def test_another_s_grant_is_no_use(self, tmp_path: Path, changes: dict[str, object]) -> None:
        sent, state, _ = self.play(tmp_path, [Reply("resume")], **changes)
        assert state.escalation is not None
        assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION
        assert "power.shutdown" not in sent

    def test_a_refused_reply_uses_nothing_up(self, tmp_path: Path) -> None:
        with pytest.raises(PlaybookError):
            self.play(tmp_path, [Reply("act", steps=[{"name": "x"}])])
        assert len(GrantBook(tmp_path / "grants").open()) == 1

    def test_an_amended_act_is_asked_about_though_it_was_granted(self, tmp_path: Path) -> None:
        steps = [{"name": "down", "action": "shutdown", "args": {"timeout": 7}, "wait_for": "shell_prompt",
                  "destructive": True}]  # fmt: skip
        sent, state, _ = self.play(tmp_path, [Reply("amend", playbook={**PLAYBOOK, "steps": steps})])
        assert state.escalation is not None
        assert state.escalation.reason is Reason.NEEDS_AUTHORIZATION
        assert "power.shutdown" not in sent


def test_an_agent_widens_nothing(tmp_path: Path) -> None:
    """It grants nothing, and adds no steps that the policy doesn't allow to agents."""
    keys = {"name": "k", "action": "press_key", "args": {"key": "a"}}

    async def play() -> None:
        async with lab(tmp_path, script(panics=True)) as it:
            run = await it.session.begin(PLAYBOOK, secret_values=SECRETS)
            await run.drive()
            guard = it.session.machine.guard
            guard.agent, guard.policy = True, Policy(agents=("observe",))
            before = len(it.sent())
            for reply, rule in (
                (Reply("resume", grant=["power.reset"]), "agent_grant"),
                (Reply("amend", playbook=PLAYBOOK, grant=["power"]), "agent_grant"),
                (Reply("act", steps=[keys]), "allow.agents"),
                (Reply("amend", playbook={**PLAYBOOK, "steps": [keys]}), "allow.agents"),
            ):
                with pytest.raises(SafetyError) as caught:
                    run.reply(reply)
                assert caught.value.rule == rule
            with pytest.raises(SafetyError, match="an agent grants nothing"):
                await it.session.begin(PLAYBOOK, secret_values=SECRETS, grant=["power"])
            assert len(it.sent()) == before
            record_reply(run.runner.ledger, Reply("resume"), agent=("observe",))

    asyncio.run(play())
