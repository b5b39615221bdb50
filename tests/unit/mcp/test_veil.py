"""While a run that was given a secret is open, direct readings of its machine don't tell the secret."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.mcp_lab import MODES, call, inside, pictures, refused, values, words, write_lab

from reflexarc.inventory import entries
from reflexarc.inventory.opening import open_session
from reflexarc.mcp.veil import WITHHELD

# The secret is what a machine shows that neither the run nor the test has to type.
SHOWN = "ncurses hidden word"
HELD: dict[str, Any] = {
    "name": "held", "vars": {"p": {"secret": True}}, "steps": [{"name": "x", "wait_for": "memtest", "timeout": 0.1}],
}  # fmt: skip
TREE = {"role": "AXButton", "name": SHOWN, "ref": 1, "enabled": True, "area": [0, 0, 9, 9], "path": ["Maker"]}


def write_shown(folder: Path, shown: str) -> Path:
    """The lab, with a machine whose screen, tree and commands show a text."""
    import json

    from PIL import Image
    from tests.played import text

    inventory = write_lab(folder, "*", tree=True)
    pixels = text([f"$ echo {shown}", shown, "$"])
    rgb = pixels.astype("<u4").view("u1").reshape(*pixels.shape, 4)[..., 2::-1]
    Image.fromarray(rgb.copy()).save(folder / "desk" / "large.png")
    lines = [
        {"at": 0, "frame": "large.png", "power": "on"},
        {"guest": {"elements": [{**TREE, "name": shown}], "apps": ["Maker"],
                   "commands": {"show": {"stdout": f"{shown}\n" * 2_000}}}},
    ]  # fmt: skip
    (folder / "desk" / "recording.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return inventory


async def held_with(inventory: Path, reference: str) -> str:
    async with open_session(entries.load(inventory).entry("desk"), holder="a person") as session:
        given = {"secret_values": {"p": SHOWN}} if not reference else {"secret_references": {"p": reference}}
        run = await session.begin(HELD, by="a person", **given)  # type: ignore[arg-type]
        await run.drive()
        run.release()
        return run.id


async def readings(client: Client) -> list[str]:
    """All that the tools which read say of the machine, pictures apart."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("observe", {"outline": True, "image": True}), ("exec", {"command": "show"}),
        *(("computer", {"action": action, "name": None if action == "ax_dump" else SHOWN})
          for action in ("ax_dump", "ax_find", "ax_wait")),
        ("computer", {"action": "key", "text": "a", "screenshot": True}),
    ]  # fmt: skip
    said = []
    for tool, arguments in calls:
        result = await call(client, tool, machine="desk", **arguments)
        assert not result.is_error, words(result)
        assert pictures(result) == []
        said.append(words(result) + str(result.structured_content))
        for stream in ("stdout_rest",):
            if rest := (result.structured_content or {}).get(stream):
                (content,) = (await client.read_resource(rest["uri"])).contents
                said.append(content.text)  # type: ignore[union-attr]
    return said


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("known", [True, False])
def test_no_direct_reading_tells_the_secret_of_an_open_run(tmp_path: Path, known: bool, mode: str) -> None:
    (tmp_path / "secret").write_text(SHOWN)
    inventory = write_shown(tmp_path, SHOWN)

    async def ask() -> None:
        async with inside(inventory, mode) as client:
            plain = await call(client, "observe", machine="desk", image=True)
            assert SHOWN in words(plain)
            assert len(pictures(plain)) == 1
            run_id = await held_with(inventory, f"file:{tmp_path / 'secret'}" if known else "")
            *looks, act = await readings(client)
            assert not any(SHOWN in said for said in [*looks, act])
            assert [WITHHELD in said for said in looks] == [not known] * len(looks)
            for action in ("screenshot", "zoom"):
                failed = await refused(
                    client, "computer", machine="desk", action=action, region=[0, 0, 50, 50]
                )
                assert failed["rule"] == "secret"
            stands = await values(client, "run_status", run_id=run_id)
            assert "********" in stands["escalation"]["text"]
            await values(client, "cancel_run", run_id=run_id)
            assert SHOWN in words(await call(client, "observe", machine="desk"))

    asyncio.run(ask())


def test_a_screen_without_the_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SHOWN)
    inventory = write_shown(tmp_path, "nothing of it")

    async def ask() -> None:
        async with inside(inventory) as client:
            await held_with(inventory, f"file:{tmp_path / 'secret'}")
            seen = await call(client, "observe", machine="desk", image=True)
            assert "nothing of it" in words(seen)
            assert len(pictures(seen)) == 1

    asyncio.run(ask())


def test_a_secret_that_the_screen_breaks_is_masked(tmp_path: Path) -> None:
    long = "a long one of many words, " * 4
    (tmp_path / "secret").write_text(long.strip())
    whole = long.strip()
    broken = [whole[:80], whole[80:]]
    inventory = write_shown(tmp_path, "x")

    async def ask() -> None:
        from PIL import Image
        from tests.played import text

        pixels = text([*broken, "$"])
        rgb = pixels.astype("<u4").view("u1").reshape(*pixels.shape, 4)[..., 2::-1]
        Image.fromarray(rgb.copy()).save(tmp_path / "desk" / "large.png")
        async with inside(inventory) as client:
            await held_with(inventory, f"file:{tmp_path / 'secret'}")
            seen = await call(client, "observe", machine="desk", image=True)
            assert "many words" not in words(seen)
            assert pictures(seen) == []

    asyncio.run(ask())
