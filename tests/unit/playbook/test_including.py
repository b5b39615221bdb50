"""Steps that stand in another file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.playbook.seeing import PHASES

from reflexarc.errors import PlaybookError
from reflexarc.observation import Phases
from reflexarc.playbook.loader import load_data, load_file, load_text
from reflexarc.playbook.model import Playbook

TOP = """name: top
steps:
  - {name: first, wait_for: grub_menu}
  - include: parts/login.yaml
  - {name: last, action: freeze}
"""
LOGIN = """name: login
vars: {user: root}
requires: [screen]
authorize: {destructive: true, ops: [power.reset]}
defaults: {timeout: 7}
steps:
  - {name: user, wait_for: login_prompt, action: type_text, args: {text: "{{ user }}"}}
  - {name: slow, wait_for: login_prompt, timeout: 9}
"""


def load(folder: Path, **files: str) -> Playbook:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_file(folder / "top.yaml", Phases(PHASES))


def test_the_steps_stand_in_its_place_with_what_they_need(tmp_path: Path) -> None:
    book = load(tmp_path, top=TOP, parts__login=LOGIN)
    assert [step.name for step in book.steps] == ["first", "user", "slow", "last"]
    assert [step.timeout for step in book.steps] == [None, 7, 9, None]
    assert book.defaults == {"user": "root"}
    assert "screen" in book.needs
    assert book.authorize == ()


def test_the_whole_is_kept_so_that_the_files_may_go(tmp_path: Path) -> None:
    book = load(tmp_path, top=TOP, parts__login=LOGIN)
    (tmp_path / "parts/login.yaml").unlink()
    assert load_data(book.source, Phases(PHASES)) == book


def test_an_included_playbook_includes_from_its_own_folder(tmp_path: Path) -> None:
    middle = "name: middle\nsteps:\n  - include: ../end.yaml\n"
    end = "name: end\nsteps:\n  - {name: end, wait_for: login_prompt}\n"
    book = load(tmp_path, top=TOP, parts__login=middle, end=end)
    assert [step.name for step in book.steps] == ["first", "end", "last"]


@pytest.mark.parametrize(
    ("login", "place", "says"),
    [
        (LOGIN.replace("login_prompt, timeout: 9", "login_promt"), "parts/login.yaml:8:", "login_prompt"),
        (LOGIN.replace("name: slow", "name: first"), "parts/login.yaml:8:", "has the name 'first' already"),
        (LOGIN.replace("{user: root}", "{user: [1]}"), "parts/login.yaml:2:", "value of a variable"),
        ("name: [", "parts/login.yaml:1:", "flow"),
        ("- 1", "parts/login.yaml:1:", "a mapping that has steps"),
        ("name: x\nsteps: [{include: login.yaml}]\n", "parts/login.yaml:2:", "includes itself"),
        ("name: x\nsteps: [{include: ../top.yaml}]\n", "parts/login.yaml:2:", "includes itself"),
        ("name: x\nsteps: [{include: ../../secret.yaml}]\n", "parts/login.yaml:2:", "no file in the folder"),
        ("name: x\nsteps: [{include: /etc/passwd}]\n", "parts/login.yaml:2:", "no file in the folder"),
        ("name: x\nsteps: [{include: gone.yaml}]\n", "parts/login.yaml:2:", "no file in the folder"),
        ("name: x\nsteps: [{include: 7}]\n", "parts/login.yaml:2:", "include names a file"),
        ("name: x\nsteps: [{include: a, name: b}]\n", "parts/login.yaml:2:", "beside include"),
    ],
)
def test_a_mistake_is_told_where_it_is(tmp_path: Path, login: str, place: str, says: str) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    (tmp_path / "secret.yaml").write_text(LOGIN)
    with pytest.raises(PlaybookError, match=says) as caught:
        load(folder, top=TOP, parts__login=login)
    assert place in str(caught.value)


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    (folder / "parts").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text(LOGIN)
    (folder / "parts/login.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(PlaybookError, match="no file in the folder"):
        load(folder, top=TOP)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    os.mkfifo(tmp_path / "parts/login.yaml")
    with pytest.raises(PlaybookError, match="no file in the folder"):
        load(tmp_path, top=TOP)


def test_depth_and_number_are_bounded(tmp_path: Path) -> None:
    chain = {f"f{i}": f"name: x\nsteps:\n  - include: f{i + 1}.yaml\n" for i in range(12)}
    with pytest.raises(PlaybookError, match="more than 8 deep"):
        load(tmp_path, top=chain["f0"], **chain)
    doubled = {f"g{i}": f"name: x\nsteps:\n{f'  - include: g{i + 1}.yaml{chr(10)}' * 12}" for i in range(4)}
    last = "name: x\nsteps:\n" + "  - {name: a, wait_for: grub_menu}\n" * 12
    with pytest.raises(PlaybookError, match="more than 100 files"):
        load(tmp_path, top=doubled["g0"], g4=last, **doubled)
    many = "name: x\nsteps:\n" + "".join(f"  - {{name: s{i}, wait_for: grub_menu}}\n" for i in range(1001))
    with pytest.raises(PlaybookError, match="more than 2000 steps"):
        load(tmp_path, top="name: x\nsteps: [{include: many.yaml}, {include: many.yaml}]\n", many=many)


def test_nothing_is_included_without_end(tmp_path: Path) -> None:
    """Files without steps count too."""
    doubled = {f"g{i}": f"name: x\nsteps:\n{f'  - include: g{i + 1}.yaml{chr(10)}' * 20}" for i in range(7)}
    with pytest.raises(PlaybookError, match="more than 100 files"):
        load(tmp_path, top=doubled["g0"], g7="name: x\nsteps: []\n", **doubled)


@pytest.mark.parametrize("name", ["x\\0y", "loop"])
def test_a_name_that_is_no_file_is_a_mistake_with_its_place(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PlaybookError, match=r"top.yaml:3:\d+: .* is no file in the folder"):
        load(tmp_path, top=f'name: x\nsteps:\n  - include: "{name}"\n')


def test_only_files_include() -> None:
    with pytest.raises(PlaybookError, match="playbooks in files only"):
        load_text(TOP, Phases(PHASES))
    with pytest.raises(PlaybookError, match="playbooks in files only"):
        load_data({"name": "x", "steps": [{"include": "login.yaml"}]}, Phases(PHASES))
