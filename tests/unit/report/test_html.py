"""The page of a run: complete, self-contained, bounded, and unbroken by anything that a machine shows."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.played import menu
from tests.unit.report.conftest import CLEANED, HOSTILE
from tests.unit.report.hour import hour

from reflexarc.machine.frame import Frame
from reflexarc.report.html import html_report
from reflexarc.report.pictures import MAX_PICTURES, pictures
from reflexarc.report.story import Story
from reflexarc.report.text import moment
from reflexarc.runs.gallery import encoded

VOID = {"meta", "img", "rect"}
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "article", "div", "p",
    "span", "h1", "h2", "h3", "small", "b", "q", "code", "pre", "dl", "dt", "dd", "ol", "ul", "li", "time", "figure",
    "details", "summary", "img", "svg", "rect", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class Page(HTMLParser):
    """A page read back: its elements, its texts by element, whether every element is closed where it was opened."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.attributes if name == tag]

    def text(self, *tags: str) -> str:
        return "\n".join(text for tag, text in self.texts if text and (not tags or tag in tags))


def page(story: Story) -> Page:
    """The page of a story, with what must be so of every page checked."""
    document = html_report(story)
    found = Page(document)
    assert found.open == []
    assert {tag for tag, _ in found.attributes} - {"title"} <= ELEMENTS
    assert len(document.encode()) <= 3_000_000
    check_self_contained(document, found)
    check_accessible(found)
    return found


def check_self_contained(document: str, found: Page) -> None:
    style = found.text("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(a["content"] for a in found.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\(|@import|https?:", style)
    for tag, attributes in found.attributes:
        assert not {"style", "srcset", "action"} & set(attributes), tag
        assert "href" not in attributes or (tag == "a" and str(attributes["href"]).startswith("file:///")), (
            tag
        )
        assert not [name for name in attributes if name.startswith("on")]
        assert tag == "img" or "src" not in attributes
    for image in found.all("img"):
        kind, _, data = str(image["src"]).partition(",")
        assert kind == "data:image/webp;base64"
        with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as picture:
            picture.load()


def check_accessible(found: Page) -> None:
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("h1")) == 1
    assert all(image["alt"] for image in found.all("img"))
    assert all(drawing["aria-label"] for drawing in found.all("svg"))
    levels = [int(tag[1]) for tag, _ in found.attributes if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_a_run_that_succeeded(succeeded: Story) -> None:
    found = page(succeeded)
    assert found.text("title").startswith("played on lab: succeeded")
    names = [text for tag, text in found.texts if tag == "h3" and text]
    assert names == [step.step.name for step in succeeded.steps]
    kept = {sight.frame.ref for step in succeeded.steps for sight in step.sights if sight.frame}
    assert len(found.all("img")) == len(kept) >= 4
    assert "6.1.0-57-cloud-amd64" in found.text("code")
    assert "grub_menu" in found.text("b")
    assert f"{succeeded.telemetry.cheap_share:.0%}" in found.text("dd")


def test_a_held_run_shows_the_screen_and_how_to_answer(held: Story) -> None:
    found = page(held)
    assert "Kernel panic - not syncing: VFS: Unable to mount root fs" in found.text("pre")
    assert f"reflexarc runs reply {held.state.run_id} resume" in found.text("code")
    assert (
        next(a["alt"] for a in found.all("img"))
        == f"The screen at {moment(held.holds[0].begin)}, crash_screen"
    )


def test_a_failed_run_says_why(failed: Story) -> None:
    found = page(failed)
    assert " ".join(CLEANED.split()) in found.text("p")
    assert found.text("h1").strip() == "fails & <falls>"
    assert "amended the playbook, to go on at 'skipped' (<b>somebody</b>)" in found.text("dd")
    assert "reflexarc runs reply" not in found.text()
    assert failed.final is not None
    assert [image["alt"] for image in found.all("img")][:2] == [
        "The screen at the end",
        f"The screen at {moment(failed.holds[0].begin)}, grub_menu",
    ]
    assert f"The screen was as at {moment(failed.holds[0].begin)}, grub_menu." in found.text("p")


def test_a_hostile_screen_arrives_as_it_was(hostile: Story) -> None:
    found = page(hostile)
    for line in HOSTILE:
        assert line in found.text("pre").splitlines()
    assert "<script>read</script>" in found.text("h3")
    assert found.all("script") == []


def test_pictures_fit_whatever_they_show(tmp_path: Path) -> None:
    """Noise is what no codec can make small; what then doesn't fit is left out, and the featured come first."""
    noise = np.random.default_rng(3).integers(0, 1 << 24, (12, 200, 320), dtype=np.uint32)
    for number, pixels in enumerate(noise):
        (tmp_path / f"{number}.webp").write_bytes(encoded(Frame(pixels, 0.0, number)))
    (tmp_path / "text.webp").write_bytes(encoded(Frame(menu(0), 0.0, 1)))
    (tmp_path / "broken.webp").write_bytes(b"RIFF")
    names = [f"{number}.webp" for number in range(12)]
    for budget in (2_000_000, 150_000, 20_000, 100):
        made = pictures(tmp_path, ["text.webp"], ["broken.webp", "gone.webp", *names], budget=budget)
        assert sum(len(picture.uri) for picture in made.values()) <= budget
        assert ("text.webp" in made) == (budget >= 20_000)
        assert (len(made) == 13) == (budget == 2_000_000)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return hour(tmp_path_factory.mktemp("hour"))


def test_an_hour_long_run_fits(long_run: Story) -> None:
    assert long_run.seconds == pytest.approx(3600, abs=10)
    assert sum(len(step.sights) for step in long_run.steps) > 900
    assert len(long_run.gallery.frames) == 200
    found = page(long_run)
    assert len(found.all("img")) == MAX_PICTURES
    assert len(found.all("rect")) > 40
    assert re.search(r"and \d+ more", found.text("li"))
    assert re.search(r"\d+ more phases", found.text("summary"))
    assert "1 h 00 min" in found.text("dd")
