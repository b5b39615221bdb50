"""`reflexarc phases` as it is called: output, JSON and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.sensing.render import VGA, grub_menu

from reflexarc.sensing.taught import Taught, keep


def reflexarc(*arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "reflexarc", "phases", *map(str, arguments)]
    environment = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(home), "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=60)


def test_every_phase_is_listed_with_its_place_and_users_own_too(tmp_path: Path) -> None:
    own = tmp_path / "reflexarc/phases/acme.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("phases:\n  acme_menu: {alarm: true, usual_max: 12}\n")
    listed = {row["name"]: row for row in json.loads(reflexarc("list", "--json", home=tmp_path).stdout)}
    assert listed["acme_menu"] == {
        "name": "acme_menu", "parent": None, "usual_max": 12.0, "passing": False, "alarm": True,
        "defined": f"{own}:2",
    }  # fmt: skip
    assert listed["installer_keyboard"]["parent"] == "installer_welcome"
    lines = reflexarc("list", home=tmp_path).stdout.splitlines()
    assert len(lines) == len(listed)
    assert any(line.split()[:4] == ["acme_menu", "alarm", "12", "s"] for line in lines)


def test_a_frame_is_explained(tmp_path: Path) -> None:
    picture = tmp_path / "menu.png"
    grub_menu().image().save(picture)
    told = reflexarc("explain", picture, home=tmp_path).stdout
    assert told.startswith("grub_menu  (confidence 0.95, text, complete)")
    assert "GNU GRUB  version 2.06" in told
    assert "evidence   held" in told
    assert "unless     failed" in told
    found = json.loads(reflexarc("explain", picture, "--json", home=tmp_path).stdout)
    assert (found["phase"], found["candidates"][0]["phase"], found["readable"]) == (
        "grub_menu",
        "grub_menu",
        1.0,
    )
    digest = reflexarc("explain", picture, "--needle", "100x40", home=tmp_path).stdout.strip()
    assert len(digest) == 32


def test_a_folder_is_tried(tmp_path: Path) -> None:
    VGA.frame(["lab login:"]).image().save(tmp_path / "login.png")
    (tmp_path / "phases.json").write_text('{"login": "login_prompt"}')
    done = reflexarc("test", tmp_path, "--json", home=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["n"], found["right"], found["confident_wrong"]) == (0, 1, 1, 0)
    assert set(found) >= {"answered", "cer", "confusion", "ms"}
    assert (
        "1 screens: 1 answered, 1 right, 0 rightly left unknown"
        in reflexarc("test", tmp_path, home=tmp_path).stdout
    )


def test_what_can_not_be_read_is_told_in_one_line_with_exit_code_2(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n truncated")
    for arguments in (
        ("test", tmp_path / "nowhere"),
        ("test", tmp_path),
        ("explain", broken),
        ("explain", tmp_path / "none.png"),
    ):
        done = reflexarc(*arguments, home=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"reflexarc: {arguments[1]}: ")
        assert done.stderr.count("\n") == 1


def test_what_was_taught_is_listed_accepted_and_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "reflexarc/phases"
    name = keep(folder, Taught("acme_menu", text="^ACME\\x1b", by_agent=True, new=True), "run-7")
    (told,) = reflexarc("list", "--taught", home=tmp_path).stdout.splitlines()
    assert told.split() == [
        name, "to", "be", "accepted", "by", "agent,", "run", "run-7:", "text", repr("^ACME\\x1b"),
    ]  # fmt: skip
    assert "acme_menu" not in reflexarc("list", home=tmp_path).stdout
    assert reflexarc("accept", name, home=tmp_path).stdout == f"{name}: accepted\n"
    (found,) = json.loads(reflexarc("list", "--taught", "--json", home=tmp_path).stdout)
    assert (found["name"], found["accepted"], found["by"]) == (name, True, "agent")
    assert "acme_menu" in reflexarc("list", home=tmp_path).stdout
    assert reflexarc("forget", name, home=tmp_path).stdout == f"{name}: forgotten\n"
    assert list(folder.iterdir()) == []
    for command in ("accept", "forget"):
        done = reflexarc(command, name, home=tmp_path)
        assert (done.returncode, "was taught" in done.stderr) == (2, True)
