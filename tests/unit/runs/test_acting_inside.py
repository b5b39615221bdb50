"""What the actions do inside the guest: commands, applications, files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acting import PERHAPS, detail, machine, one, run

from reflexarc.errors import CapabilityError
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.playbook.state import Outcome, Stage
from reflexarc.runs.replies import Reply


class TestGuest:
    def test_a_command_s_output_is_kept(self, tmp_path: Path) -> None:
        sent, state = one(tmp_path, "exec", {"command": "uname -r"})
        assert sent == ["shell.exec:uname -r"]
        assert state.registered["it"] == {"status": 0, "stdout": "6.1.0\n", "stderr": ""}

    def test_it_is_bounded_and_says_so(self, tmp_path: Path) -> None:
        got = one(tmp_path, "exec", {"command": "yes"})[1].registered["it"]
        assert isinstance(got, dict)
        assert (len(got["stdout"]), got["truncated"]) == (65_536, True)

    def test_a_status_that_is_not_ok(self, tmp_path: Path) -> None:
        said = detail(one(tmp_path, "exec", {"command": "false"})[1])
        assert said.startswith("it ended with status 3, not 0: it went wrong")
        state = one(tmp_path / "b", "exec", {"command": "false", "ok_codes": [0, 3]})[1]
        assert state.registered["it"] == {"status": 3, "stdout": "", "stderr": "it went wrong\n"}

    def test_what_the_machine_said_gets_into_env_and_argv(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "exec", "args": {"command": "uname -r"}, "register": "kernel"},
            {
                "action": "exec",
                "args": {"argv": ["echo", "hello"], "env": {"KERNEL": "{{ kernel.stdout }}"}},
            },
        )
        assert (state.outcome, sent[1]) == (Outcome.SUCCEEDED, "shell.exec:KERNEL=6.1.0\n echo hello")

    @pytest.mark.parametrize("action", ["exec", "run_serial"])
    def test_a_reply_can_t_put_it_into_a_command(self, tmp_path: Path, action: str) -> None:
        evil = {"name": "evil", "action": action, "args": {"command": "echo {{ kernel.stdout }}"}}
        sent, state = run(
            tmp_path,
            {"action": "exec", "args": {"command": "uname -r"}, "register": "kernel"},
            {"action": "exec", "args": {"command": "false"}},
            replies=[Reply("act", steps=[evil]), Reply("abort")],
        )
        assert (state.outcome, state.escalations) == (Outcome.ABORTED, 2)
        assert sent == ["shell.exec:uname -r", "shell.exec:false"]

    def test_control_characters_from_the_machine_are_not_typed(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "exec", "args": {"command": "uname -r"}, "register": "kernel"},
            {"action": "type_text", "args": {"text": "{{ kernel.stdout }}"}},
        )
        assert (sent, "control characters" in detail(state)) == (["shell.exec:uname -r"], True)

    def test_a_secret_in_a_command_is_written_nowhere(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "exec", "args": {"argv": ["echo", "{{ pw }}"], "env": {"PW": "{{ pw }}"}}},
            secrets={"pw": "open sesame"},
        )
        assert sent == ["shell.exec:PW=open sesame echo open sesame"]
        assert "status 127" in detail(state)
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"open sesame" not in path.read_bytes(), path

    def test_an_application(self, tmp_path: Path) -> None:
        assert one(tmp_path, "launch_app", {"name": "firefox"})[0] == ["apps.launch:firefox"]
        assert "no application" in detail(one(tmp_path / "b", "launch_app", {"name": "fierfox"})[1])

    def test_files_go_to_and_fro(self, tmp_path: Path) -> None:
        exchange = tmp_path / "exchange"
        exchange.mkdir()
        (exchange / "in").write_bytes(bytes(range(256)) * 4000)
        sent, state = run(
            tmp_path,
            {"action": "upload", "args": {"source": "in", "target": "/tmp/in"}, "register": "up"},
            {"action": "download", "args": {"source": "/tmp/in", "target": "out"}, "register": "down"},
            host=HostPaths(exchange=exchange),
        )
        assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["files.write:/tmp/in", "files.read:/tmp/in"])
        assert (exchange / "out").read_bytes() == (exchange / "in").read_bytes()
        assert state.registered["down"] == {"path": str(exchange / "out"), "size": 1_024_000}
        assert sorted(path.name for path in exchange.iterdir()) == ["in", "out"]

    def test_a_file_that_was_given_to_be_mounted_is_not_written_over(self, tmp_path: Path) -> None:
        iso = tmp_path / "my.iso"
        iso.write_bytes(b"mine")
        evil = {
            "name": "evil",
            "action": "download",
            "args": {"source": "/etc/hostname", "target": "{{ iso }}"},
        }
        sent, state = run(
            tmp_path,
            {"action": "mount_iso", "args": {"source": "{{ iso }}"}, "destructive": True},
            {"action": "exec", "args": {"command": "false"}},
            variables={"iso": str(iso)},
            replies=[Reply("act", steps=[evil]), Reply("abort")],
        )
        assert (state.escalations, iso.read_bytes()) == (2, b"mine")
        assert "files.read:/etc/hostname" not in sent

    @pytest.mark.parametrize(
        ("action", "args"),
        [
            ("upload", {"source": "/etc/hostname", "target": "/tmp/x"}),
            ("upload", {"source": "../secret", "target": "/tmp/x"}),
            ("download", {"source": "/etc/hostname", "target": "../x"}),
            ("download", {"source": "/etc/hostname", "target": "link"}),
            ("download", {"source": "/gone", "target": "x"}),
        ],
    )
    def test_nothing_is_sent_or_left_where_it_may_not_be(
        self, tmp_path: Path, action: str, args: dict[str, object]
    ) -> None:
        exchange = tmp_path / "exchange"
        exchange.mkdir()
        (tmp_path / "secret").write_bytes(b"secret")
        (exchange / "link").symlink_to(tmp_path / "secret")
        sent, state = one(tmp_path, action, args, host=HostPaths(exchange=exchange), when=PERHAPS)
        assert (sent, state.stage) == ([], Stage.HELD)
        assert (tmp_path / "secret").read_bytes() == b"secret"
        assert [path.name for path in exchange.iterdir()] == ["link"]

    @pytest.mark.parametrize("action", ["exec", "launch_app", "upload", "download"])
    def test_without_anything_inside_the_run_does_not_begin(self, tmp_path: Path, action: str) -> None:
        args: dict[str, dict[str, object]] = {
            "exec": {"command": "ls"},
            "launch_app": {"name": "x"},
            "upload": {"source": "a", "target": "b"},
            "download": {"source": "a", "target": "b"},
        }
        with pytest.raises(CapabilityError, match="needs what no driver"):
            one(tmp_path, action, args[action], played=machine())
