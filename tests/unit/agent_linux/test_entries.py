"""Desktop entries: their commands, and which one a name means."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexarc_agent.backends.linux.apps.entries import Entry, EntryError, entries, named, read, split


def written(folder: Path, name: str, *lines: str) -> Path:
    path = folder / f"{name}.desktop"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(
        ["# first", "[Desktop Entry]", "Type=Application", *lines, "[Desktop Action x]", "Exec=no"]
    )
    path.write_text(text, "utf-8")
    return path


def entry(folder: Path, *lines: str) -> Entry:
    found = read(written(folder, "org.example.App", *lines), "org.example.App")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("app", ["app"]),
        ("app %U --new  --x=%c", ["app", "--new", "--x=An App"]),
        (r'"/opt/my app/run" "a \\"quoted\\" \\$x" 100%%', ["/opt/my app/run", 'a "quoted" $x', "100%"]),
        ("app %i %f %k", ["app", "--icon", "pic", "{path}"]),
        (r"sh -c \"x\sy\"", None),
        ("app %z", None),
        ('app "open', None),
        ('app a"b"', None),
        ("", None),
    ],
)
def test_an_exec_key_is_a_command(tmp_path: Path, line: str, words: list[str] | None) -> None:
    found = entry(tmp_path, "Name=An App", "Icon=pic", f"Exec={line}")
    if words is None:
        with pytest.raises(EntryError):
            found.command()
    else:
        assert found.command() == [word.replace("{path}", str(found.path)) for word in words]


def test_keys_are_those_of_the_first_group(tmp_path: Path) -> None:
    found = entry(
        tmp_path, "Name=A\\sB", "Name[fr]=C", "Terminal=true", "NoDisplay=true", "Exec=a", "Path=/tmp"
    )
    assert (found.name, found.names) == ("A B", frozenset({"A B", "C"}))
    assert (found.terminal, found.shown, found.activatable, found.folder) == (True, False, False, "/tmp")


def test_the_nearest_folder_decides_also_that_there_is_none(tmp_path: Path) -> None:
    home, system = tmp_path / "home", tmp_path / "usr"
    written(home / "applications", "one", "Name=Mine", "Exec=mine")
    written(system / "applications", "one", "Name=Theirs", "Exec=theirs")
    written(home / "applications", "two", "Name=Two", "Exec=two", "Hidden=true")
    written(system / "applications", "two", "Name=Two", "Exec=two")
    written(system / "applications", "kde/three", "Name=Three", "Exec=three")
    (system / "applications" / "four.desktop").write_bytes(b"\xff\xfe[Desktop")
    listed = entries({"XDG_DATA_HOME": str(home), "XDG_DATA_DIRS": f"/nowhere::{system}"})
    assert {(found.id, found.name) for found in listed} == {("one", "Mine"), ("kde-three", "Three")}


def test_an_id_is_meant_before_a_name_and_a_name_must_be_one_alone(tmp_path: Path) -> None:
    folder = tmp_path / "applications"
    for name, title in (("edit", "Text Editor"), ("other", "edit"), ("a", "Twin"), ("b", "Twin")):
        written(folder, name, f"Name={title}", "Exec=x")
    listed = entries({"XDG_DATA_HOME": str(tmp_path), "XDG_DATA_DIRS": "/nowhere"})
    assert named(listed, "edit").name == "Text Editor"
    assert named(listed, "edit.desktop").id == "edit"
    assert named(listed, "TEXT editor").id == "edit"
    with pytest.raises(EntryError, match="the name of several applications; name one by its id: a, b"):
        named(listed, "twin")
    with pytest.raises(EntryError, match="there is 'Text Editor'"):
        named(listed, "Text Edtor")
    with pytest.raises(EntryError, match="this desktop has no entries at all"):
        named([], "any")


@given(st.text(max_size=60))
def test_any_line_is_split_or_refused(line: str) -> None:
    try:
        words = split(line)
    except EntryError:
        return
    assert all(isinstance(word, str) for word in words)
    assert split(" ".join(f'"{plain}"' for plain in words if not set(plain) & set('"\\'))) == [
        plain for plain in words if not set(plain) & set('"\\')
    ]
