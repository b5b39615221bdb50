"""A window with a button that writes a file, and a field: what a test presses, fills and checks."""

from __future__ import annotations

from pathlib import Path

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402


def main() -> None:
    window = Gtk.Window(title="Lab")
    window.connect("destroy", Gtk.main_quit)
    box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=12, border_width=24)
    said, field, button = Gtk.Label(label="Not built"), Gtk.Entry(), Gtk.Button(label="Build")
    field.get_accessible().set_name("Target")

    def build(_: Gtk.Button) -> None:
        Path.home().joinpath("built").write_text(f"built {field.get_text()}\n")
        said.set_text("Built")

    button.connect("clicked", build)
    for part in (said, field, button):
        box.add(part)
    window.add(box)
    window.show_all()
    Gtk.main()


if __name__ == "__main__":
    main()
