"""The tool `computer`: every action, and where on the screen it lands; the audit log tells what was let through."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp import Client
from PIL import Image
from tests.mcp_lab import MODES, audited, call, inside, pictures, refused, values, words, write_lab

from reflexarc.errors import ConfigError
from reflexarc.machine import keys
from reflexarc.mcp.computer import ACTIONS, chord

Use = Callable[[Client], Awaitable[None]]


def used(folder: Path, use: Use, mode: str = "auto", *, tree: bool = False) -> list[dict[str, Any]]:
    """Use the desktop as an agent that may give input; what was let through, without what all lines have."""

    async def ask() -> None:
        async with inside(write_lab(folder, "observe", "input", tree=tree), mode) as client:
            await use(client)

    asyncio.run(ask())
    common = {"at", "user", "machine", "who", "why", "allowed", "client"}
    return [
        {key: value for key, value in line.items() if key not in common}
        for line in audited()
        if line["allowed"] and not str(line["operation"]).startswith("observe.")
    ]


async def act(client: Client, action: str, **arguments: Any) -> dict[str, Any]:
    return await values(client, "computer", machine="desk", action=action, **arguments)


@pytest.mark.parametrize("mode", MODES)
def test_clicks_land_where_the_image_shows_it(tmp_path: Path, mode: str) -> None:
    async def use(client: Client) -> None:
        result = await call(client, "computer", machine="desk", action="screenshot")
        image = Image.open(io.BytesIO(base64.b64decode(pictures(result)[0]))).convert("RGB")
        assert image.size == (1366, 683)
        assert image.getpixel((500, 250)) == (20, 120, 220)
        for action in ("left_click", "right_click", "middle_click", "double_click", "triple_click"):
            done = await act(client, action, coordinate=[500, 250])
            assert (done["done"], done["changed"]) == (True, False)
        assert (await act(client, "cursor_position"))["coordinate"] == [500, 250]

    at = {"x": 750, "y": 375}
    click = "pointer.click"
    assert used(tmp_path, use, mode) == [
        {"operation": click, **at, "button": "left", "times": 1},
        {"operation": click, **at, "button": "right", "times": 1},
        {"operation": click, **at, "button": "middle", "times": 1},
        {"operation": click, **at, "button": "left", "times": 2},
        {"operation": click, **at, "button": "left", "times": 2},
        {"operation": click, **at, "button": "left", "times": 1},
    ]


def test_moves_drags_and_the_wheel(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        await act(client, "screenshot")
        await act(client, "mouse_move", coordinate=[0, 0])
        await act(client, "left_click_drag", start_coordinate=[10, 10], coordinate=[100, 50])
        await act(client, "left_mouse_down", coordinate=[100, 100])
        await act(client, "left_mouse_up")
        await act(client, "scroll", coordinate=[1365, 682], scroll_direction="down", scroll_amount=5)
        await act(client, "scroll", scroll_direction="left")

    assert used(tmp_path, use) == [
        {"operation": "pointer.move", "x": 0, "y": 0},
        {"operation": "pointer.drag", "x": 15, "y": 15, "to_x": 150, "to_y": 75, "button": "left"},
        {"operation": "pointer.drag", "x": 150, "y": 150, "button": "left"},
        {"operation": "pointer.drag", "x": 150, "y": 150, "button": "left"},
        {"operation": "pointer.move", "x": 2047, "y": 1023},
        {"operation": "pointer.scroll", "dx": 0, "dy": 5},
        {"operation": "pointer.scroll", "dx": -3, "dy": 0},
    ]


@pytest.mark.parametrize(
    ("written", "pressed"),
    [
        ("Return", ["enter"]), ("ctrl+s", ["ctrl", "s"]), ("Control_L+Alt_L+F2", ["ctrl", "alt", "f2"]),
        ("Page_Down", ["page_down"]), ("super", ["meta"]), ("BackSpace", ["backspace"]),
        ("shift+Tab", ["shift", "tab"]), ("Escape", ["esc"]), ("KP_Enter", ["kp_enter"]), ("space", ["space"]),
        ("alt+F4", ["alt", "f4"]), ("Prior", ["page_up"]), ("XF86PowerOff", None), ("ctrl++", None), ("", None),
    ],
)  # fmt: skip
def test_keys_by_the_names_that_models_know(written: str, pressed: list[str] | None) -> None:
    if pressed is None:
        with pytest.raises(ConfigError):
            keys.chord(chord(written))
    else:
        assert list(keys.chord(chord(written))) == pressed


def test_typing_holding_waiting_and_zooming(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        await act(client, "screenshot")
        await act(client, "type", text="ls -l")
        await act(client, "hold_key", text="a", duration=0.1)
        waited = await act(client, "wait", duration=0.1)
        assert waited["phase"] == waited["before"]
        result = await call(client, "computer", machine="desk", action="zoom", region=[341, 171, 683, 342])
        image = Image.open(io.BytesIO(base64.b64decode(pictures(result)[0]))).convert("RGB")
        assert image.size == (512, 256)
        assert (np.asarray(image)[4:-4, 4:-4] == (20, 120, 220)).all()

    assert [line["operation"] for line in used(tmp_path, use)] == ["keyboard.type", "keyboard.press"]


def test_after_a_change_of_resolution_the_old_image_counts_no_more(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        await act(client, "screenshot")
        await act(client, "mouse_move", coordinate=[1300, 600])
        changed = await act(client, "key", text="Return")
        assert changed["changed"] is True
        for action in ("left_click", "mouse_move", "zoom"):
            failed = await refused(
                client,
                "computer",
                machine="desk",
                action=action,
                coordinate=[500, 250],
                region=[0, 0, 10, 10],
            )
            assert (
                "800x600 pixels by now, another size than in the last image; take a screenshot"
                in failed["message"]
            )
        assert (await act(client, "screenshot"))["image"] == {"width": 800, "height": 600}
        for action in ("left_click", "left_mouse_down"):
            failed = await refused(client, "computer", machine="desk", action=action)
            assert "where the pointer is isn't known" in failed["message"]
        await act(client, "left_click", coordinate=[500, 250])

    assert used(tmp_path, use)[2:] == [
        {"operation": "pointer.click", "x": 500, "y": 250, "button": "left", "times": 1},
    ]


def test_an_act_may_bring_the_screen_along(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        result = await call(client, "computer", machine="desk", action="key", text="Return", screenshot=True)
        (data,) = pictures(result)
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (800, 600)
        assert words(result).startswith("key: done. The screen changed")
        await act(client, "left_click", coordinate=[799, 599])

    assert [line.get("x") for line in used(tmp_path, use)] == [None, 799]


IMPOSSIBLE: list[dict[str, Any]] = [
    {"action": "left_click"}, {"action": "left_click", "coordinate": [1366, 0]}, {"action": "type"},
    {"action": "left_click", "coordinate": [-1, 0]}, {"action": "mouse_move"}, {"action": "key"},
    {"action": "scroll"}, {"action": "zoom"}, {"action": "zoom", "region": [5, 5, 5, 5]},
    {"action": "zoom", "region": [10, 10, 2, 2]}, {"action": "cursor_position"}, {"action": "ax_press", "ref": 9},
    {"action": "hold_key", "text": "a", "duration": 31}, {"action": "type", "text": "\u0007"},
    {"action": "launch_app"}, {"action": "ax_find"}, {"action": "left_click_drag", "coordinate": [1, 1]},
]  # fmt: skip


def test_what_can_not_be_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        await act(client, "screenshot")
        for arguments in IMPOSSIBLE:
            failed = await refused(client, "computer", machine="desk", **arguments)
            assert failed["error"] in ("ConfigError", "CapabilityError"), failed

    assert used(tmp_path, use) == []


def test_an_unknown_action_is_refused_by_the_schema(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        for action in ("explode", "SCREENSHOT", "", "power_off"):
            failed = await refused(client, "computer", machine="desk", action=action)
            assert "Input should be 'screenshot'" in failed["words"]

    assert used(tmp_path, use) == []


def test_elements_are_read_found_and_acted_on_by_ref(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        dump = await act(client, "ax_dump", screenshot=True)
        assert (dump["count"], dump["complete"], dump["text_is_untrusted"]) == (3, True, True)
        assert '"Build"' in dump["outline"]
        (build,) = (await act(client, "ax_find", role="AXButton", name="Build"))["elements"]
        (there,) = (await act(client, "ax_element_at", coordinate=[467, 233]))["elements"]
        assert there["ref"] == build["ref"]
        assert (await act(client, "ax_press", ref=build["ref"]))["done"] is True
        await act(client, "ax_focus", role="AXTextField")
        await act(client, "ax_set_value", role="AXTextField", value="test")
        await act(client, "ax_action", ref=build["ref"], text="AXPress")
        assert (await act(client, "ax_wait", name="Build", duration=1))["elements"][0]["name"] == "Build"
        await act(client, "launch_app", name="Maker")

    assert [line["operation"] for line in used(tmp_path, use, tree=True)] == [
        "accessibility.action", "accessibility.focus", "accessibility.set_value", "accessibility.action", "apps.launch",
    ]  # fmt: skip


def test_every_action_that_is_told_is_there(tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        await values(client, "observe", machine="desk")
        (tool,) = (tool for tool in (await client.list_tools()).tools if tool.name == "computer")
        assert sorted(tool.input_schema["properties"]["action"]["enum"]) == sorted(ACTIONS)

    used(tmp_path, use, tree=True)


@pytest.mark.parametrize("mode", MODES)
def test_keys_are_held_while_something_is_clicked(tmp_path: Path, mode: str) -> None:
    async def use(client: Client) -> None:
        await act(client, "screenshot")
        await act(client, "left_click", coordinate=[1, 1], text="ctrl+Shift_L")
        await act(client, "scroll", coordinate=[1, 1], scroll_direction="down", text="ctrl")
        failed = await refused(
            client, "computer", machine="desk", action="left_click", coordinate=[1, 1], text="no"
        )
        assert "no" in failed["message"]

    lines = used(tmp_path, use, mode)
    assert [(line["operation"], line.get("keys")) for line in lines] == [
        ("keyboard.press", ["ctrl"]), ("keyboard.press", ["shift"]), ("pointer.click", None),
        ("keyboard.press", []), ("keyboard.press", []),
        ("pointer.move", None), ("keyboard.press", ["ctrl"]), ("pointer.scroll", None), ("keyboard.press", []),
    ]  # fmt: skip
