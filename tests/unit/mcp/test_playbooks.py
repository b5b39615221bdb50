"""The tool `playbooks`, and what files of the host agents can't get at through it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_lab import MODES, UP, call, inside, refused, values, words, write_lab

SECRET = "hunter2-is-the-secret"


@pytest.mark.parametrize("mode", MODES)
def test_playbooks_are_listed_shown_checked_and_described(tmp_path: Path, mode: str) -> None:
    inventory = write_lab(tmp_path)
    (tmp_path / "up.yaml").write_text(json.dumps(UP))
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "other.json").write_text(json.dumps({**UP, "name": "other"}))
    (tmp_path / "config" / "reflexarc" / "playbooks").mkdir(parents=True)
    (tmp_path / "config" / "reflexarc" / "playbooks" / "own.yml").write_text(
        json.dumps({**UP, "name": "own"})
    )

    async def ask() -> None:
        async with inside(inventory, mode) as client:
            listed = await values(client, "playbooks")
            assert [row["name"] for row in listed["playbooks"]] == ["up", "other", "own"]
            shown = await values(client, "playbooks", action="show", playbook="other")
            assert shown["playbook"]["name"] == "other"
            assert (await values(client, "playbooks", action="validate", playbook="up"))["valid"] is True
            wrong = await call(
                client,
                "playbooks",
                action="validate",
                playbook={"name": "x", "steps": [{"name": "a", "wait_fro": "b"}]},
            )
            assert (wrong.structured_content or {})["valid"] is False
            assert "wait_for" in words(wrong)
            schema = await values(client, "playbooks", action="schema")
            assert "steps" in schema["schema"]["properties"]
            for action in ("show", "validate"):
                assert (await refused(client, "playbooks", action=action))["error"] == "ConfigError"

    asyncio.run(ask())


def traps(folder: Path) -> list[Any]:
    """Ways to have a file of the host read that is none of the playbooks."""
    outside = folder / "outside"
    outside.mkdir()
    secret = outside / "secret.yaml"
    secret.write_text(f"name: {SECRET}\nsteps: []\n")
    lab = folder / "lab"
    (lab / "link.yaml").symlink_to(secret)
    (lab / "circle.yaml").symlink_to("circle.yaml")
    (lab / "settings.json").write_text(json.dumps({"token": SECRET}))
    (lab / "broken.yaml").write_text(f"password: [{SECRET}\n")
    (lab / ".vscode").mkdir()
    (lab / ".vscode" / "mcp.json").write_text(json.dumps({"steps": SECRET}))
    return [
        str(secret), "../outside/secret.yaml", "../outside/secret", "link", "link.yaml", "circle", "settings",
        "settings.json", "broken", ".vscode/mcp.json", "/etc/passwd", "reflexarc.toml", "~/.netrc", "x" * 5000, "\0",
        ".", "..", "", f"file://{secret}", "name: x\nsteps:\n- include: ../outside/secret.yaml\n",
        {"name": "x", "steps": [{"include": str(secret)}]},
        {"name": "x", "steps": [{"name": "n", "wait_for": {"needle": str(secret)}}]},
        {"name": "x", "vars": {"v": {"secret": True, "default": f"file:{secret}"}},
         "steps": [{"name": "n", "action": "type_text", "args": {"text": "{{ v }}"}}]},
        {"name": "x", "steps": [{"name": "n", "action": "upload", "args": {"source": str(secret), "to": "/x"}}]},
    ]  # fmt: skip


def test_no_file_of_the_host_is_read_but_playbooks(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    inventory = write_lab(tmp_path / "lab", "*")

    async def ask() -> None:
        async with inside(inventory) as client:
            for trap in traps(tmp_path):
                for tool, more in (
                    ("playbooks", {"action": "show"}), ("playbooks", {"action": "validate"}),
                    ("run_playbook", {"machine": "desk", "wait": 20}),
                ):  # fmt: skip
                    result = await call(client, tool, playbook=trap, **more)
                    assert SECRET not in str(result), (tool, trap)
                    told = result.structured_content or {}
                    if tool == "run_playbook" and not result.is_error:
                        assert told["outcome"] != "succeeded", trap
                        await values(client, "cancel_run", run_id=told["run_id"])
            assert SECRET not in str(await call(client, "playbooks"))

    asyncio.run(ask())
