"""What agents may do: only look, until the inventory says more; what is destructive only once a person granted it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.mcp_lab import MODES, audited, call, give, inside, refused, values, words, write_lab

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session

Call = tuple[str, dict[str, Any]]

ACTS: list[tuple[str, str, dict[str, Any]]] = [
    ("pointer.click", "computer", {"action": "left_click", "coordinate": [1, 1]}),
    ("keyboard.press", "computer", {"action": "key", "text": "a"}),
    ("keyboard.type", "computer", {"action": "type", "text": "a"}),
    ("shell.exec", "exec", {"command": "uname -r"}),
    ("files.read", "files", {"action": "read", "path": "/etc/hostname"}),
    ("files.write", "files", {"action": "write", "path": "/x", "text": "a"}),
    ("power.on", "power", {"action": "on"}),
    ("power.off", "power", {"action": "off"}),
    ("snapshot.save", "snapshot", {"action": "save", "name": "a"}),
]
DESTRUCTIVE: list[tuple[str, str | None, str, dict[str, Any]]] = [
    ("power.shutdown", None, "power", {"action": "shutdown"}),
    ("power.off", None, "power", {"action": "off"}),
    ("power.reset", None, "power", {"action": "reset"}),
    ("power.cycle", None, "power", {"action": "cycle"}),
    ("power.reset", None, "computer", {"action": "key", "text": "ctrl+alt+Delete"}),
    ("media.mount", "{media}/a.iso", "media", {"action": "insert", "source": "{media}/a.iso"}),
    ("media.eject", None, "media", {"action": "eject"}),
    ("boot.set_device", "cdrom,once", "boot_device", {"device": "cdrom"}),
    ("snapshot.restore", "a", "snapshot", {"action": "restore", "name": "a"}),
    ("snapshot.delete", "a", "snapshot", {"action": "delete", "name": "a"}),
]


def filled(given: Any, folder: Path) -> Any:
    if isinstance(given, dict):
        return {key: filled(value, folder) for key, value in given.items()}
    return given.replace("{media}", str(folder / "media")) if isinstance(given, str) else given


def sent() -> list[object]:
    return [
        line["operation"]
        for line in audited()
        if line["allowed"] and not str(line["operation"]).startswith(("observe.", "run."))
    ]


@pytest.mark.parametrize("mode", MODES)
def test_by_default_an_agent_only_looks(tmp_path: Path, mode: str) -> None:
    async def ask() -> None:
        async with inside(write_lab(tmp_path), mode) as client:
            await values(client, "computer", machine="desk", action="screenshot")
            for operation, tool, arguments in ACTS:
                failed = await refused(client, tool, machine="desk", **arguments)
                assert (failed["error"], failed["rule"], failed["operation"]) == (
                    "SafetyError", "allow.agents", operation,
                )  # fmt: skip
                assert "an operator can add" in failed["message"]
                assert "to allow.agents in the inventory" in failed["message"]
                assert "[rule allow.agents]" in failed["words"]
            for tool, arguments in (
                ("power", {}), ("media", {}), ("boot_device", {}), ("snapshot", {}), ("observe", {}),
                ("computer", {"action": "screenshot"}),
            ):  # fmt: skip
                await values(client, tool, machine="desk", **arguments)

    asyncio.run(ask())
    assert sent() == []
    refusals = [line for line in audited() if not line["allowed"]]
    assert [(line["operation"], line["why"], line["who"]) for line in refusals] == [
        (operation, "allow.agents", "agent mcp") for operation, _, _ in ACTS
    ]


@pytest.mark.parametrize("operation", DESTRUCTIVE, ids=lambda row: str(row[0]) + str(row[3]))
def test_what_is_destructive_needs_a_grant_beside_the_policy(
    tmp_path: Path, operation: tuple[str, str | None, str, dict[str, Any]]
) -> None:
    name, argument, tool, given = operation
    arguments = filled(given, tmp_path)

    async def ask(inventory: Path) -> None:
        async with inside(inventory) as client:
            if name.startswith("snapshot"):
                await values(client, "snapshot", machine="desk", action="save", name="a")
            failed = await refused(client, tool, machine="desk", **arguments)
            assert (failed["rule"], failed["operation"]) == ("no_grant", name)
            assert f"`reflexarc grant desk {name}`" in failed["message"]
            give(inventory, "desk", **{name.replace(".", "__"): filled(argument, tmp_path)})
            await values(client, tool, machine="desk", **arguments)
            again = await refused(client, tool, machine="desk", **arguments)
            assert again["rule"] == "no_grant"

    asyncio.run(ask(write_lab(tmp_path, "*")))
    assert sent().count(name) == 1
    (line,) = (line for line in audited(name) if line["allowed"])
    assert str(line["why"]).startswith("grant ")
    assert line["why"].endswith("by a person")  # type: ignore[attr-defined]


@pytest.mark.parametrize("operation", DESTRUCTIVE[:3], ids=lambda row: str(row[0]))
def test_a_grant_is_nothing_without_the_policy(
    tmp_path: Path, operation: tuple[str, str | None, str, dict[str, Any]]
) -> None:
    name, argument, tool, arguments = operation

    async def ask(inventory: Path) -> None:
        give(inventory, "desk", **{name.replace(".", "__"): argument})
        async with inside(inventory) as client:
            failed = await refused(client, tool, machine="desk", **arguments)
            assert failed["rule"] == "allow.agents"

    asyncio.run(ask(write_lab(tmp_path, "observe", "input", "power.on")))
    assert sent() == []


def test_a_grant_is_for_its_arguments_and_its_machine(tmp_path: Path) -> None:
    async def ask(inventory: Path) -> None:
        give(inventory, "lab", power__off=None)
        give(inventory, "desk", boot__set_device="disk,once", media__mount=str(tmp_path / "media" / "b.iso"))
        async with inside(inventory) as client:
            for tool, arguments in (
                ("power", {"action": "off"}), ("boot_device", {"device": "cdrom"}),
                ("boot_device", {"device": "disk", "once": False}),
                ("media", {"action": "insert", "source": str(tmp_path / "media" / "a.iso")}),
            ):  # fmt: skip
                assert (await refused(client, tool, machine="desk", **arguments))["rule"] == "no_grant"

    asyncio.run(ask(write_lab(tmp_path, "*")))
    assert sent() == []


@pytest.mark.parametrize(
    "source",
    [
        "/etc/passwd",
        "media/../secret.iso",
        "media/link.iso",
        "file:///etc/passwd",
        "",
        "\0",
        "https://x/a.iso",
    ],
)
def test_images_come_from_the_folders_of_the_inventory(tmp_path: Path, source: str) -> None:
    async def ask(inventory: Path) -> None:
        (tmp_path / "secret.iso").write_bytes(b"secret")
        (tmp_path / "media" / "link.iso").symlink_to(tmp_path / "secret.iso")
        given = str(tmp_path / source) if source.startswith("media") else source
        give(inventory, "desk", media__mount=given)
        async with inside(inventory) as client:
            failed = await refused(client, "media", machine="desk", action="insert", source=given)
            assert failed["error"] in ("SafetyError", "ConfigError"), failed

    asyncio.run(ask(write_lab(tmp_path, "*")))
    assert sent() == []


def test_a_dry_run_sends_nothing_at_all(tmp_path: Path) -> None:
    async def ask(inventory: Path) -> None:
        give(inventory, "desk", power__off=None)
        async with inside(inventory, dry_run=True) as client:
            await values(client, "computer", machine="desk", action="screenshot")
            for _, tool, arguments in ACTS:
                assert (await refused(client, tool, machine="desk", **arguments))["rule"] == "dry_run"
            ran = await values(
                client, "run_playbook", machine="lab", wait=20,
                playbook={"name": "on", "steps": [{"name": "on", "wait_for": "power_off", "action": "power_on"}]},
            )  # fmt: skip
            assert ran["outcome"] in ("held", "failed")

    asyncio.run(ask(write_lab(tmp_path, "*")))
    assert sent() == []


def test_the_policy_of_the_moment_counts(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "observe", "input")

    async def ask() -> None:
        async with inside(inventory) as client:
            await values(client, "computer", machine="desk", action="key", text="a")
            inventory.write_text(inventory.read_text().replace('"input"', '"shell"'))
            failed = await refused(client, "computer", machine="desk", action="key", text="a")
            assert failed["rule"] == "allow.agents"

    asyncio.run(ask())
    assert sent() == ["keyboard.press"]


def test_calls_take_the_lock_of_the_machine_and_give_it_back(tmp_path: Path) -> None:
    inventory = write_lab(tmp_path, "observe", "input")

    async def press(client: Client) -> Any:
        return await call(client, "computer", machine="desk", action="key", text="a")

    async def ask() -> None:
        entry = entries.load(inventory).entry("desk")
        async with inside(inventory) as client, open_session(entry, holder="a person's program") as session:
            assert not (await press(client)).is_error
            await session.keyboard.press("b")
            busy = await press(client)
            assert busy.is_error
            assert "a person's program" in words(busy)
            await values(client, "observe", machine="desk")
            session.lock.release()
            assert not (await press(client)).is_error

    asyncio.run(ask())
    assert [line["keys"] for line in audited("keyboard.press") if line["allowed"]] == [["a"], ["b"], ["a"]]
