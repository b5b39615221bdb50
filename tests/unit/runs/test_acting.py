"""What the actions send, and what they say became of it, on a played machine."""

from __future__ import annotations

import asyncio
import base64
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.acting import AUTHORIZE, OPS, PERHAPS, detail, machine, one, run
from tests.played import MENU, SHELL, lab, menu, script, text

from reflexarc.drivers.replay.driver import ReplayCapabilities
from reflexarc.drivers.replay.script import Entry, Fault
from reflexarc.errors import SafetyError
from reflexarc.machine.capabilities import BootDevice, PowerState
from reflexarc.machine.hostpaths import HostPaths
from reflexarc.playbook.events import Intended, Verified
from reflexarc.playbook.state import Outcome, Reason, RunState, Stage
from reflexarc.runs.replies import Reply


class TestPointer:
    @pytest.mark.parametrize(
        ("action", "args", "sent"),
        [
            ("move", {"x": 10, "y": 20}, ["pointer.move:10,20"]),
            ("move", {"x": 0.5, "y": 1.0}, ["pointer.move:360,399"]),
            (
                "click",
                {"x": 1, "y": 0.0, "button": "right"},
                ["pointer.move:1,0", "pointer.down:right", "pointer.up:right"],
            ),
            (
                "double_click",
                {"x": 1, "y": 2},
                ["pointer.move:1,2", *("pointer.down:left", "pointer.up:left") * 2],
            ),
            ("scroll", {"dy": 3}, ["pointer.scroll:0,3"]),
            ("scroll", {"x": 4, "y": 5, "dx": -1}, ["pointer.move:4,5", "pointer.scroll:-1,0"]),
            # `Debian GNU/Linux` alone is the second entry: row 5, columns 3 to 18, of 9 by 16 pixels.
            (
                "click",
                {"text": r"Debian GNU/Linux(?! \()"},
                ["pointer.move:99,88", "pointer.down:left", "pointer.up:left"],
            ),
        ],
    )
    def test_what_is_sent(
        self, tmp_path: Path, action: str, args: dict[str, object], sent: list[str]
    ) -> None:
        assert one(tmp_path, action, args)[0] == sent

    def test_a_drag_from_a_text_to_a_place(self, tmp_path: Path) -> None:
        sent, state = one(tmp_path, "drag", {"text": "serial console", "to_x": 700, "to_y": 0.0})
        assert (sent[0], sent[1], sent[-2], sent[-1]) == (
            "pointer.move:252,72",
            "pointer.down:left",
            "pointer.move:700,0",
            "pointer.up:left",
        )
        assert state.registered["it"] == {"x": 252, "y": 72, "to_x": 700, "to_y": 0}

    @pytest.mark.parametrize(
        ("args", "says"),
        [
            ({"text": "memtest"}, "is not there"),
            ({"text": MENU[1]}, "is there 2 times"),
            ({"x": 720, "y": 0}, "not on its screen of 720x400"),
        ],
    )
    def test_a_place_that_is_not_there_gets_no_click(
        self, tmp_path: Path, args: dict[str, object], says: str
    ) -> None:
        sent, state = one(tmp_path, "click", args)
        assert (sent, says in detail(state)) == ([], True)

    def test_an_aim_counts_in_cells(self, tmp_path: Path) -> None:
        played = machine(entries=(Entry(frame=text(["", "root@lab:~# ok"])),))
        assert one(tmp_path, "move", {"text": "ok$"}, played=played)[0] == ["pointer.move:117,24"]


class TestDevice:
    @pytest.fixture
    def iso(self, tmp_path: Path) -> Path:
        folder = tmp_path / "iso"
        folder.mkdir()
        (folder / "debian.iso").write_bytes(b"x")
        return folder

    def test_an_image_goes_in_and_comes_out(self, tmp_path: Path, iso: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "mount_iso", "args": {"source": "debian.iso"}, "destructive": True, "register": "it"},
            {"wait_for": "grub_menu", "action": "eject", "destructive": True},
            host=HostPaths(media=(str(iso),)),
        )
        assert (state.outcome, sent) == (
            Outcome.SUCCEEDED,
            [f"media.mount:{iso}/debian.iso", "media.eject"],
        )
        assert state.registered["it"] == {"inserted": f"{iso}/debian.iso"}

    def test_a_typed_path_may_lie_elsewhere_and_a_default_may_not(self, tmp_path: Path, iso: Path) -> None:
        path = str(iso / "debian.iso")
        args: dict[str, object] = {"source": "{{ iso }}"}
        assert one(tmp_path, "mount_iso", args, variables={"iso": path})[0] == [f"media.mount:{path}"]
        sent, state = one(tmp_path / "b", "mount_iso", args, vars={"iso": path}, when=PERHAPS)
        assert (sent, "the inventory names no folder" in detail(state)) == ([], True)
        args = {"source": f"{iso}/{{{{ n }}}}"}
        sent, state = one(tmp_path / "c", "mount_iso", args, variables={"n": "debian.iso"}, when=PERHAPS)
        assert (sent, "the inventory names no folder" in detail(state)) == ([], True)

    def test_only_cds_are_taken(self, tmp_path: Path, iso: Path) -> None:
        args: dict[str, object] = {"source": "debian.iso", "cdrom": False}
        sent, state = one(tmp_path, "mount_iso", args, host=HostPaths(media=(str(iso),)))
        assert (sent, "CD images only" in detail(state)) == ([], True)

    def test_a_boot_device_is_read_back(self, tmp_path: Path) -> None:
        sent, state = one(tmp_path, "set_boot_device", {"device": "cdrom", "once": True})
        assert (sent, state.registered["it"]) == (
            ["boot.set_device:cdrom"],
            {"device": "cdrom", "once": True},
        )

    def test_going_back(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "snapshot", "args": {"name": "clean"}},
            {"action": "freeze"},
            {"action": "unfreeze"},
            {
                "precondition": "grub_menu",
                "action": "rollback",
                "args": {"name": "clean"},
                "destructive": True,
            },
        )
        assert state.outcome is Outcome.SUCCEEDED
        assert sent == ["snapshot.save:clean", "freeze.on", "freeze.off", "snapshot.restore:clean"]

    def test_going_back_to_nothing_sends_nothing(self, tmp_path: Path) -> None:
        sent, state = one(tmp_path, "rollback", {"name": "gone"})
        assert (sent, "no saved state 'gone'" in detail(state)) == ([], True)

    def test_a_cycle_switches_on_what_is_off(self, tmp_path: Path) -> None:
        sent, state = one(tmp_path, "hard_cycle", {}, played=machine(power=PowerState.OFF))
        assert (sent, state.registered["it"]) == (["power.cycle"], {"power": "on"})

    @pytest.mark.parametrize("fault", [Fault.LOSE_AFTER, Fault.HANG])
    def test_a_mount_in_doubt_is_asked_about(self, tmp_path: Path, iso: Path, fault: Fault) -> None:
        sent, state = one(
            tmp_path,
            "mount_iso",
            {"source": "debian.iso"},
            host=HostPaths(media=(str(iso),)),
            played=machine(faults={"media.mount": (fault,)}),
        )
        assert state.escalation is not None
        assert state.escalation.reason is Reason.CONNECTION_LOST
        assert sent == [f"media.mount:{iso}/debian.iso"]

    def test_a_typed_path_that_leads_nowhere_begins_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(SafetyError, match="no plain file"):
            one(tmp_path, "mount_iso", {"source": "{{ iso }}"}, variables={"iso": str(tmp_path / "gone.iso")})

    @pytest.mark.parametrize("happened", [True, False])
    @pytest.mark.parametrize(
        ("action", "args", "operation"),
        [
            ("mount_iso", {"source": "debian.iso"}, "media.mount"),
            ("eject", {}, "media.eject"),
            ("set_boot_device", {"device": "cdrom", "once": True}, "boot.set_device"),
        ],
    )
    def test_an_act_that_was_cut_off_is_looked_for_and_never_done_twice(
        self, tmp_path: Path, iso: Path, action: str, args: dict[str, object], operation: str, happened: bool
    ) -> None:
        step = {"name": "x", "action": action, "args": args, "destructive": True}
        book = {"name": "x", "authorize": AUTHORIZE, "steps": [step]}

        async def do(lent: ReplayCapabilities) -> None:
            assert lent.media is not None
            assert lent.boot is not None
            if action == "mount_iso":
                await lent.media.insert(str(iso / "debian.iso"))
            elif action == "eject":
                await lent.media.eject()
            else:
                await lent.boot.set(BootDevice.CDROM, once=True)

        async def play() -> tuple[list[str], RunState]:
            async with lab(tmp_path, machine(), host=HostPaths(media=(str(iso),))) as it:
                assert it.machine.media is not None
                if action == "eject":
                    await it.machine.media.insert(str(iso / "debian.iso"))
                begun = await it.session.begin(book, grant=OPS)
                ledger = begun.runner.ledger
                ledger.record(Verified(time.monotonic(), await it.session.watcher.fresh()))
                ledger.record(Intended(time.monotonic()))
                assert ledger.state.stage is Stage.ACTING
                if happened:
                    await do(it.machine)
                begun.release()
                taken = it.session.take_up(begun.id)
                state = await taken.drive()
                return [sent for sent in it.sent() if sent.startswith(operation)], state

        sent, state = asyncio.run(play())
        if happened:
            assert (state.outcome, len(sent)) == (Outcome.SUCCEEDED, 1)
        else:
            assert state.escalation is not None
            assert (state.escalation.reason, sent) == (Reason.INTERRUPTED, [])


class TestFailing:
    def test_a_run_that_fails_goes_back(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "snapshot", "args": {"name": "clean"}},
            {"action": "fail", "args": {"message": "no luck"}},
            on_failure={"rollback": "clean"},
        )
        assert (state.outcome, state.reason) == (Outcome.FAILED, "no luck; went back to clean")
        assert sent == ["snapshot.save:clean", "snapshot.restore:clean"]

    def test_one_that_fails_before_there_is_a_state_only_fails(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "fail", "args": {"message": "no luck"}},
            {"action": "snapshot", "args": {"name": "clean"}},
            on_failure={"rollback": "clean"},
        )
        assert (state.outcome, sent) == (Outcome.FAILED, [])
        assert "no saved state 'clean'" in state.reason


class TestHolding:
    def test_the_machine_stands_still_while_it_is_asked_about(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "exec", "args": {"command": "false"}},
            hold="freeze",
            replies=[
                Reply("act", steps=[{"name": "x", "action": "press_key", "args": {"key": "a"}}]),
                Reply("abort"),
            ],
        )
        assert state.outcome is Outcome.ABORTED
        assert sent == [
            "shell.exec:false", "freeze.on", "freeze.off", "key.down:a", "shell.exec:false", "freeze.on", "freeze.off",
        ]  # fmt: skip

    def test_a_machine_that_is_off_is_held_passively(self, tmp_path: Path) -> None:
        step = {"wait_for": "grub_menu", "timeout": 0.2, "action": "press_key", "args": {"key": "a"}}
        sent, state = run(tmp_path, step, played=script(), hold="freeze")
        assert (sent, state.stage, "can't be frozen" in state.freeze_error) == ([], Stage.HELD, True)

    def test_what_a_step_froze_stays_frozen(self, tmp_path: Path) -> None:
        sent, state = run(
            tmp_path,
            {"action": "freeze"},
            {"action": "rollback", "args": {"name": "x"}, "destructive": True, "precondition": "grub_menu"},
            hold="freeze",
            replies=[Reply("abort")],
        )
        assert (state.outcome, sent) == (Outcome.ABORTED, ["freeze.on"])


def test_a_run_may_begin_further_on(tmp_path: Path) -> None:
    async def play() -> tuple[list[str], RunState]:
        async with lab(tmp_path, machine(entries=(Entry(frame=text(SHELL)),))) as it:
            steps = [
                {"name": "off", "action": "hard_off", "destructive": True},
                {"name": "key", "action": "press_key", "args": {"key": "b"}},
            ]
            begun = await it.session.begin({"name": "x", "steps": steps}, start_at="key")
            state = await begun.drive()
            return it.sent(), state

    sent, state = asyncio.run(play())
    assert (state.outcome, sent) == (Outcome.SUCCEEDED, ["key.down:b"])


class TestPictures:
    """Aiming by a picture that is cut out of the screen: the bar of the menu, or a word of it."""

    def cut(self, x: int, y: int, width: int, height: int) -> str:
        pixels = menu(0)[y : y + height, x : x + width]
        file = BytesIO()
        channels = np.stack([(pixels >> shift) & 0xFF for shift in (16, 8, 0)], axis=-1)
        Image.fromarray(channels.astype(np.uint8)).save(file, "png")
        return base64.b64encode(file.getvalue()).decode()

    def test_the_middle_of_the_one_place_is_clicked(self, tmp_path: Path) -> None:
        rows, columns = np.nonzero(menu(0) != menu(0)[0, 0])
        x, y = int(columns.min()), int(rows.min())
        width, height = min(200, int(columns.max()) - x), min(60, int(rows.max()) - y)
        args: dict[str, object] = {"needle": "part.png", "image": self.cut(x, y, width, height)}
        sent, state = one(tmp_path, "click", args)
        assert state.outcome is Outcome.SUCCEEDED, state.escalation
        assert state.registered["it"] == {"x": x + width // 2, "y": y + height // 2}
        assert any("pointer" in line for line in sent)

    def test_a_picture_that_is_not_there_gets_no_click(self, tmp_path: Path) -> None:
        noise = np.random.default_rng(3).integers(0, 255, (20, 20, 3)).astype(np.uint8)
        file = BytesIO()
        Image.fromarray(noise).save(file, "png")
        args: dict[str, object] = {"needle": "gone.png", "image": base64.b64encode(file.getvalue()).decode()}
        sent, state = one(tmp_path, "click", args)
        assert "'gone.png', which is not there" in detail(state)
        assert not any("pointer" in line for line in sent)
