"""Files of this host that a run would name: found wrong before it begins, whatever names them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.acting import PERHAPS, machine
from tests.played import lab

from reflexarc.errors import SafetyError
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.playbook.loader import load_data
from reflexarc.playbook.model import Playbook
from reflexarc.runs.hostfiles import file_findings, misplaced
from reflexarc.runs.preflight import Severity
from reflexarc.sensing.recognise import load_recognisers

PHASES = load_recognisers().phases
# How a file that may not be used is named, by action: outside, not there, by a link.
WRONG = {
    "mount_iso": ["/etc/hostname", "../secret", "none.iso", "link", "http://elsewhere.example.org/a.iso"],
    "upload": ["/etc/hostname", "../secret", "none", "link"],
    "download": ["../out", "/tmp/out", "link"],
}


@pytest.fixture
def host(tmp_path: Path) -> HostPaths:
    for name in ("media", "exchange"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "good.iso").write_bytes(b"x")
        (tmp_path / name / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_bytes(b"secret")
    return HostPaths((str(tmp_path / "media"), "https://mirror.example.org/iso"), tmp_path / "exchange")


def step(action: str, name: str, **more: object) -> dict[str, object]:
    """A step whose action names a file of this host."""
    here = "target" if action == "download" else "source"
    args: dict[str, object] = {here: name}
    if action != "mount_iso":
        args["source" if here == "target" else "target"] = "/there"
    return {"action": action, "args": args, "destructive": action == "mount_iso", **more}


def book(*steps: Mapping[str, object], **top: object) -> Playbook:
    named = [{"name": f"step {index}", **one} for index, one in enumerate(steps)]
    return load_data({"name": "p", "steps": named, **top}, PHASES)


def wrong(playbook: Playbook, host: HostPaths, **given: object) -> list[tuple[int, bool]]:
    values = {**playbook.defaults, **given}
    return [(found.index, found.sure) for found in misplaced(playbook, host, values)]


@pytest.mark.parametrize(("action", "name"), [(action, name) for action in WRONG for name in WRONG[action]])
def test_what_is_named_is_looked_for(host: HostPaths, action: str, name: str) -> None:
    good = "https://mirror.example.org/iso/a.iso" if "://" in name else "good.iso"
    assert wrong(book(step(action, good), step(action, name)), host) == [(1, True)]
    assert wrong(book(step(action, name, when=PERHAPS)), host) == [(0, False)]
    assert wrong(book(step(action, "{{ it }}"), vars={"it": name}), host) == [(0, True)]
    assert wrong(book(step(action, "{{ it }}")), host, it=name) == [(0, True)]


def test_what_is_not_known_before_is_passed_over(host: HostPaths) -> None:
    assert wrong(book(step("mount_iso", "{{ dir }}/a.iso")), host) == []
    secret = book(step("upload", "{{ pw }}"), vars={"pw": {"secret": True}})
    assert wrong(secret, host) == []


def test_what_an_earlier_step_brings_is_there_by_then(host: HostPaths) -> None:
    assert wrong(book(step("download", "new"), step("upload", "new")), host) == []
    assert wrong(book(step("upload", "new"), step("download", "new")), host) == [(0, True)]


def test_steps_before_the_first_are_no_matter(host: HostPaths) -> None:
    playbook = book(step("mount_iso", "none.iso"), step("mount_iso", "good.iso"))
    assert list(misplaced(playbook, host, {}, start_at=1)) == []


def test_what_a_person_types_may_lie_elsewhere_and_has_to_be_there(host: HostPaths, tmp_path: Path) -> None:
    playbook = book(step("mount_iso", "{{ iso }}"))
    assert file_findings(playbook, {"iso": str(tmp_path / "secret")}, host, 0) == []
    (found,) = file_findings(playbook, {"iso": str(tmp_path / "none")}, host, 0)
    assert (found.severity, bool(found.fix)) == (Severity.CRITICAL, True)


def test_a_run_does_not_begin(host: HostPaths, tmp_path: Path) -> None:
    steps: list[dict[str, object]] = [{"name": "a", "action": "press_key", "args": {"key": "enter"}}]
    steps.append({"name": "b", **step("mount_iso", "none.iso")})

    async def play() -> list[str]:
        async with lab(tmp_path, machine(), host=host) as it:
            with pytest.raises(SafetyError, match=r"lab: step 'b': 'none.iso' is no plain file inside of"):
                await it.session.begin({"name": "p", "steps": steps})
            assert it.session.journal.runs() == []
            assert it.session.lock.acquire()
            return it.sent()

    assert asyncio.run(play()) == []
