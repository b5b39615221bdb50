"""ax, exec and cp on the command line, against a played guest; and runs that show an outline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Command

import reflexarc.sync
from reflexarc import Selector

SAVE = {
    "ref": 1, "role": "AXButton", "native": "push button", "name": "Save", "actions": ["AXPress"], "path": ["Files"],
    "area": [10, 20, 30, 40],
}  # fmt: skip
FIELD = {
    "ref": 2,
    "role": "AXTextField",
    "native": "text",
    "name": "Na\x1b[31mme",
    "value": "x",
    "path": ["Files"],
}
CHECK = {"ref": 4, "role": "AXCheckBox", "name": "Verbose", "value": False, "path": ["Files"]}
SLIDER = {"ref": 5, "role": "AXSlider", "name": "Level", "value": 0, "path": ["Files"]}
TWIN = {**SAVE, "ref": 3, "path": ["Editor"]}
GUEST = {
    "commands": {
        "uname -r": {"stdout": "6.1\n"},
        "oops": {"stdout": "out\n", "stderr": "err\n", "status": 7},
        "echo a b": {"stdout": "a b\n"},
    },
    "files": {"/etc/hostname": "lab\n"},
    "apps": ["files"],
    "elements": [SAVE, FIELD],
}  # fmt: skip


@pytest.fixture
def guest(lab: Path) -> Path:
    """The machine `lab` with something inside."""
    record(lab, GUEST)
    return lab


def record(lab: Path, inside: object, *more: object) -> None:
    lines = [{"at": 0, "power": "on", "frame": "1.png"}, {"guest": inside}, *more]
    (lab / "recording" / "recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


class TestAx:
    def test_reading(self, command: Command, guest: Path) -> None:
        assert command("ax", "dump", "lab").stdout.splitlines()[0] == '- push button "Save" [ref=1]'
        tree = command("ax", "dump", "lab", "--tree", "--app", "Files").stdout.splitlines()
        assert tree[:2] == ['application "Files"', '  push button "Save" at 10,20 30x40 [AXPress]']
        whole = json.loads(command("ax", "dump", "lab", "--tree", "--json").stdout)
        assert [one["name"] for one in whole["root"]["children"]] == ["Save", FIELD["name"]]
        found = command("ax", "find", "lab", "--role", "push button")
        assert (found.returncode, found.stdout) == (
            0,
            'push button "Save" in Files at 10,20 30x40 [AXPress]\n',
        )
        assert (
            json.loads(command("ax", "find", "lab", "--text", "av", "--json").stdout)["elements"][0]["ref"]
            == 1
        )
        assert command("ax", "at", "lab", "15", "25").stdout == found.stdout
        assert command("ax", "wait", "lab", "--name", "Save").stdout == found.stdout

    def test_what_a_guest_says_moves_no_terminal(self, command: Command, guest: Path) -> None:
        for form in ("--outline", "--tree"):
            assert "\x1b" not in command("ax", "dump", "lab", form).stdout
        assert "\x1b" not in command("ax", "find", "lab", "--value", "x").stdout

    def test_nothing_found_is_1(self, command: Command, guest: Path) -> None:
        for words in (("find", "lab", "--name", "No"), ("at", "lab", "1", "1")):
            assert command("ax", *words).returncode == 1
        late = command("ax", "wait", "lab", "--name", "No", "--timeout", "0.1")
        assert (late.returncode, late.stderr) == (1, 'lab: element "No" did not come within 0.1 s\n')

    def test_acting_goes_by_identity_and_through_the_guard(self, command: Command, guest: Path) -> None:
        assert command("ax", "press", "lab", "--name", "Save").returncode == 0
        assert command("ax", "action", "lab", "AXPress", "--name", "Save").returncode == 0
        put = command("ax", "set", "lab", "hello", "--role", "AXTextField")
        assert (put.returncode, "= 'hello'" in put.stdout) == (0, True)
        assert command("ax", "focus", "lab", "--text", "Na", "--json").returncode == 0
        audit = [json.loads(line) for line in (guest / "state" / "audit.jsonl").read_text().splitlines()]
        acts = [
            (line["operation"], line["ref"]) for line in audit if not line["operation"].startswith("observe.")
        ]
        assert acts == [
            ("accessibility.action", 1), ("accessibility.action", 1), ("accessibility.set_value", 2),
            ("accessibility.focus", 2),
        ]  # fmt: skip

    def test_a_value_that_the_element_cannot_take_is_not_sent(self, command: Command, guest: Path) -> None:
        record(guest, {**GUEST, "elements": [CHECK, SLIDER]})
        assert command("ax", "set", "lab", "true", "--name", "Verbose").returncode == 0
        sent = (guest / "state" / "audit.jsonl").read_text().count("accessibility.set_value")
        for value, name, takes in (("yes", "Verbose", "true or false"), ("much", "Level", "a number")):
            refused = command("ax", "set", "lab", value, "--name", name)
            assert (refused.returncode, f"takes {takes}, not '{value}'" in refused.stderr) == (2, True)
        assert (guest / "state" / "audit.jsonl").read_text().count("accessibility.set_value") == sent > 0

    def test_several_are_refused_until_one_is_meant(self, command: Command, guest: Path) -> None:
        record(guest, {**GUEST, "elements": [SAVE, TWIN]})
        refused = command("ax", "press", "lab", "--name", "Save")
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "there are 2 elements" in refused.stderr
        assert 'push button "Save" in Editor' in refused.stderr
        assert command("ax", "press", "lab", "--name", "Save", "--app", "Editor").returncode == 0

    @pytest.mark.parametrize(
        ("words", "code", "says"),
        [
            (("ax", "press", "lab"), 2, "say which element"),
            (("ax", "press", "nowhere", "--name", "x"), 2, "no machine 'nowhere'"),
            (("ax", "press", "lab", "--name", "Sav"), 1, 'there is no element "Sav" on its desktop'),
            (("ax", "dump", "lab", "--app", "Edit"), 1, "no application 'Edit'; it has Files (1)"),
            (("ax", "action", "lab", "AXPick", "--name", "Save"), 1, "it has AXPress"),
            (("exec", "nowhere", "--", "ls"), 2, "no machine 'nowhere'"),
            (("exec", "lab"), 2, "Missing argument"),
            (("exec", "lab", "uname", "-r"), 2, "after `--`: reflexarc exec MACHINE -- COMMAND"),
            (
                ("agent", "install", "lab", "--via", "ssh", "--dry-run"),
                2,
                "lab has no ssh among its `drivers`",
            ),
            (("agent", "install", "lab", "--via", "console"), 2, "lab has no qemu among its `drivers`"),
            (("exec", "lab", "--env", "A", "--", "ls"), 2, "NAME=VALUE"),
            (("cp", "a", "b"), 2, "one of the two is MACHINE:PATH"),
            (("cp", "lab:/a", "lab:/b"), 2, "one of the two is MACHINE:PATH"),
            (("cp", "lab:", "b"), 2, "names no path"),
            (("cp", "gone", "lab:/tmp/x"), 1, "there is no plain file"),
            (("cp", "lab:/gone", "x"), 1, "there is no file /gone"),
            (("cp", "lab:/etc/hostname", "reflexarc.toml"), 1, "nothing is written to"),
            (("cp", "lab:/etc/hostname", "nowhere/x"), 1, "there is no folder"),
        ],
    )
    def test_every_mistake_is_one_line(
        self, command: Command, guest: Path, words: tuple[str, ...], code: int, says: str
    ) -> None:
        done = command(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert says in done.stderr
        assert "Traceback" not in done.stderr
        assert code == 2 or done.stderr.count("\n") == 1

    def test_without_an_agent_it_says_so(self, command: Command, guest: Path) -> None:
        record(guest, {**GUEST, "agent": "absent"})
        for words in (
            ("ax", "find", "lab", "--name", "x"),
            ("exec", "lab", "--", "ls"),
            ("cp", "lab:/a", "b"),
        ):
            done = command(*words)
            assert (done.returncode, done.stderr) == (
                1,
                "reflexarc: lab: nothing inside of the guest answers; wait until its agent runs\n",
            )
        record(guest, {"commands": {}})
        done = command("ax", "dump", "lab")
        assert done.returncode == 1
        assert "no driver of this machine offers accessibility" in done.stderr


class TestExecAndCp:
    def test_output_and_status_pass_through(self, command: Command, guest: Path) -> None:
        done = command("exec", "lab", "--", "oops")
        assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
        assert command("exec", "lab", "--", "uname", "-r").stdout == "6.1\n"
        assert command("exec", "lab", "--shell", "--", "echo", "a", "b").stdout == "a b\n"
        assert command("exec", "lab", "--", "nothing").returncode == 127

    def test_files_go_both_ways(self, command: Command, guest: Path) -> None:
        done = command("cp", "lab:/etc/hostname", "copy")
        assert (done.returncode, done.stderr) == (0, "copy: 4 bytes\n")
        assert (guest / "copy").read_text() == "lab\n"
        (guest / "folder").mkdir()
        assert command("cp", "lab:/etc/hostname", "folder").returncode == 0
        assert [path.name for path in (guest / "folder").iterdir()] == ["hostname"]
        assert command("cp", "copy", "lab:/tmp/").stderr == "lab:/tmp/copy: 4 bytes\n"


class TestRuns:
    def test_a_held_run_shows_the_outline_and_an_element_teaches(self, command: Command, guest: Path) -> None:
        record(guest, {**GUEST, "elements": [SAVE]}, {"at": 0.1, "frame": "2.png"})
        steps = [{"name": "up", "wait_for": "os_running", "timeout": 0.5}]
        (guest / "up.yaml").write_text(yaml.safe_dump({"name": "up", "steps": steps}))
        done = command("run", "up.yaml", "-m", "lab")
        assert done.returncode == 3
        held = json.loads(done.stdout)
        assert held["outline"] == '- push button "Save" [ref=1]'
        shown = command("runs", "show", held["run_id"]).stdout
        assert '  : - push button "Save" [ref=1]\n' in shown
        assert command("runs", "report", held["run_id"], "--html", "r.html").returncode == 0
        assert "- push button &quot;Save&quot; [ref=1]" in (guest / "r.html").read_text()
        reply = ("runs", "reply", held["run_id"], "teach", "--phase", "os_running")
        assert "not in the outline" in command(*reply, "--element", "name=Delete").stderr
        assert "belong to teach" in command(*reply[:3], "resume", "--element", "name=Save").stderr

    def test_a_program_without_asyncio(self, guest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REFLEXARC_STATE", str(guest / "state"))
        with reflexarc.sync.open("lab", inventory=guest / "reflexarc.toml") as m:
            assert [one.ref for one in m.ax.find(Selector(role="AXButton")).elements] == [1]
            assert m.ax.press(Selector(name="Save")).name == "Save"
            m.ax.set_value(Selector(value="x"), "y")
            assert m.ax.wait(Selector(value="y"), timeout=5) is not None
            assert m.wait_for({"element": {"value": "y"}}, timeout=5).elements[0].count == 1
            assert m.ax.outline().startswith('- push button "Save"')
