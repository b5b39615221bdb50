"""Secrets: resolved from where they are kept, masked wherever they could be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc.errors import ConfigError
from reflexarc.observation import Observation, ScreenText
from reflexarc.runs.secrets import IN_MEMORY, Redactor, resolve


def test_where_a_secret_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PASSWORD", "open sesame")
    (tmp_path / "file").write_text("from a file\n")
    assert resolve("password", "env:LAB_PASSWORD") == "open sesame"
    assert resolve("password", f"file:{tmp_path / 'file'}") == "from a file"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("env:NO_SUCH_VARIABLE", "is not set"),
        ("file:/nonexistent", "No such file"),
        ("file:/dev/zero", "no plain file"),
        ("open sesame", "where it is found"),
        ("", "given again"),
        (IN_MEMORY, "given again"),
    ],
)
def test_a_secret_that_is_not_there(reference: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        resolve("password", reference)
    assert "sesame" not in str(caught.value)


@given(
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=3, max_size=30),
    st.integers(0, 200),
    st.integers(1, 80),
)
def test_a_secret_is_masked_wherever_a_screen_breaks_it(secret: str, start: int, width: int) -> None:
    cells = (" " * start + secret).ljust(400)
    lines = tuple(cells[i : i + width].rstrip() for i in range(0, len(cells), width))
    seen = Observation(
        "shell_prompt", 1.0, "text", 1.0, 1.0, screen=ScreenText(lines, columns=width), serial=f"<{secret}>"
    )
    clean, hidden = Redactor([secret]).observation(seen)
    assert hidden
    assert clean.screen is not None
    masked = "".join(line.ljust(width) for line in clean.screen.lines)
    assert secret not in masked
    assert secret not in clean.serial
    assert len(clean.screen.lines) == len(lines)


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("open sesame 7\n", "<open sesame 7>"),
        ("first line\nsecond line", "<second line>"),
        ("correct horse battery", "<correct horse ba>"),
    ],
)
def test_other_forms_of_a_secret_are_masked_too(secret: str, shown: str) -> None:
    assert shown.strip("<>") not in Redactor([secret]).text(shown)
    seen = Observation(
        "x", 1.0, "text", 1.0, 1.0, screen=ScreenText((shown,)), serial=shown, serial_end=len(shown)
    )
    clean, hidden = Redactor([secret]).observation(seen)
    assert (hidden, len(clean.serial)) == (True, len(shown))
    assert shown.strip("<>") not in clean.text + clean.serial


def test_a_secret_that_serial_text_breaks() -> None:
    seen = Observation("x", 1.0, "text", 1.0, 1.0, serial="<open ses\name 7>")
    clean, _ = Redactor(["open sesame 7"]).observation(seen)
    assert clean.serial == "<**** ***\n*** *>"


def test_what_holds_no_secret_is_left_alone() -> None:
    seen = Observation("x", 1.0, "text", 1.0, 1.0, screen=ScreenText(("abc",)))
    assert Redactor(["secret"]).observation(seen) == (seen, False)


def test_nested_data_is_masked() -> None:
    data = {"a": "my secret", "b": [{"c": "secret"}], "n": 1}
    assert Redactor(["secret"]).data(data) == {"a": "my ********", "b": [{"c": "********"}], "n": 1}
