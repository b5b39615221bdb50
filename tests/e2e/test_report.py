"""Reports from the command line: of a run that is made, of an earlier one, across runs, and as a browser draws one."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml
from PIL import Image
from tests.e2e.conftest import Command
from tests.played import PASSWORD

RUN = ("run", "played.yaml", "-m", "lab", "--secret", "password=file:secret")


def test_a_run_writes_its_reports(command: Command, lab: Path) -> None:
    done = command(*RUN, "--grant", "power.shutdown", "--report", "run.html", "--junit", "run.xml", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-2:] == ["wrote run.xml", "wrote run.html"]
    outcome = json.loads(done.stdout)
    suite = Xml.parse(lab / "run.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "9",
        "0",
        "0",
        "0",
    )
    page = (lab / "run.html").read_text()
    assert "<title>played on lab: succeeded</title>" in page
    assert page.count("<img ") >= 4
    for name in ("run.xml", "run.html"):
        assert PASSWORD not in (lab / name).read_text()
    again = command("runs", "report", outcome["run_id"][:15], "--html", "again.html", "--junit", "again.xml")
    assert (again.returncode, again.stdout) == (0, "")
    assert (lab / "again.xml").read_bytes() == (lab / "run.xml").read_bytes()
    assert (lab / "again.html").read_text() == page
    shown = json.loads(command("runs", "show", outcome["run_id"], "--json").stdout)["telemetry"]
    assert shown["cheap_resolves"] + shown["reads"].get("none", 0) == sum(shown["reads"].values())
    assert shown["warnings"] == []


def test_a_held_run_writes_them_too(command: Command, lab: Path) -> None:
    done = command(*RUN, "--report", "held.html", "--junit", "held.xml")
    assert done.returncode == 3
    held = json.loads(done.stdout)
    failure = Xml.parse(lab / "held.xml").getroot().find(".//testcase[@name='down']/failure")
    assert failure is not None
    assert failure.get("type") == "needs_authorization"
    assert "root@lab:~#" in str(failure.text)
    page = unescape(re.sub(r"<[^>]*>", "", (lab / "held.html").read_text()))
    assert f"reflexarc runs reply {held['run_id']} resume" in page


def test_several_machines_are_one_junit_file_and_a_page_each(command: Command, lab: Path) -> None:
    inventory = (lab / "reflexarc.toml").read_text()
    (lab / "reflexarc.toml").write_text(inventory + inventory.replace("machines.lab", "machines.lab2"))
    steps = [{"name": "off", "wait_for": "power_off"}]
    (lab / "looks.yaml").write_text(yaml.safe_dump({"name": "looks", "steps": steps}))
    done = command("run", "looks.yaml", "-m", "lab*", "--report", "looks.html", "--junit", "looks.xml")
    assert done.returncode == 0, done.stderr
    suites = list(Xml.parse(lab / "looks.xml").getroot())
    assert {suite.get("hostname") for suite in suites} == {"lab", "lab2"}
    assert "looks on lab: succeeded" in (lab / "looks-lab.html").read_text()
    assert "looks on lab2: succeeded" in (lab / "looks-lab2.html").read_text()
    stats = json.loads(command("runs", "stats", "--by", "machine", "--json").stdout)
    assert {group["name"]: group["outcomes"] for group in stats} == {
        "lab": {"succeeded": 1},
        "lab2": {"succeeded": 1},
    }
    stats = json.loads(command("runs", "stats", "--by", "driver", "--json").stdout)
    assert [(group["name"], group["runs"], group["cheap_share"]) for group in stats] == [("replay", 2, 1.0)]
    line = command("runs", "stats").stdout.splitlines()[1]
    assert re.fullmatch(r"looks +2 +\d+\.\d s +\d+\.\d s +100\.0%  succeeded 2", line)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("runs", "report", "nothing", "--html", "x.html"), 1, "there is no run 'nothing'"),
        (("runs", "report", "nothing"), 2, "--html FILE, --junit FILE or both"),
        ((*RUN, "--report", "no/such/folder.html"), 2, "can't write a report here"),
        ((*RUN, "--junit", "no/such/folder.xml"), 2, "can't write a report here"),
        (("runs", "stats", "--by", "weekday"), 2, "'playbook', 'machine', 'driver'"),
    ],
)
def test_every_mistake_is_one_clear_error(
    command: Command, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert command("runs", "list").stdout == ""


@pytest.mark.full
@pytest.mark.parametrize("width", [1200, 500])
def test_a_browser_draws_it(command: Command, lab: Path, width: int) -> None:
    """Chromium says nothing of the policy, styles the page, and draws the frame of the boot menu."""
    assert command(*RUN, "--grant", "power.shutdown", "--report", "run.html").returncode == 0
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--hide-scrollbars", "--enable-logging=stderr", f"--user-data-dir={lab / 'profile'}",
        f"--window-size={width},2600", f"--screenshot={lab / 'page.png'}",
    ]  # fmt: skip
    done = subprocess.run(
        ["chromium", *options, (lab / "run.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    with Image.open(lab / "page.png") as shot:
        picture = shot.convert("RGB")
    colours = {colour for _, colour in picture.getcolors(1 << 24) or []}
    # The paper, the badge of a success, the bars of waiting and acting, and black consoles.
    assert {(255, 255, 255), (0xE9, 0xF6, 0xEF), (0x9D, 0xB4, 0xCF), (0x1F, 0x6F, 0xEB), (0, 0, 0)} <= colours
    black = sum(pixel == (0, 0, 0) for pixel in picture.resize((width // 4, 650)).get_flattened_data())
    assert black > 650 * width // 4 // 50


def test_a_run_is_recorded_and_its_files_are_named(command: Command, lab: Path) -> None:
    refused = command(*RUN, "--video", "video.yaml")
    assert (refused.returncode, "ends in .webp" in refused.stderr) == (2, True)
    done = command(*RUN, "--grant", "power.shutdown", "--video", "run.webp", "--report", "run.html", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run_id"]
    kept = lab / "state" / "runs" / run / "video.webp"
    assert (lab / "run.webp").read_bytes() == kept.read_bytes()
    with Image.open(kept) as image:
        assert (image.format, image.size) == ("WEBP", (720, 400))
        assert getattr(image, "n_frames", 1) >= 4
    assert json.loads(command("runs", "show", run, "--json").stdout)["files"]["video"] == str(kept)
    assert f"  video: {kept}\n" in command("runs", "show", run).stdout
    assert f'href="{kept.as_uri()}"' in (lab / "run.html").read_text()
    other = command(*RUN, "--grant", "power.shutdown", "--video", "--json")
    assert (
        "video"
        in json.loads(command("runs", "show", json.loads(other.stdout)["run_id"], "--json").stdout)["files"]
    )
