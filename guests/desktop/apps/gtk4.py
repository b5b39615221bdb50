"""A GTK 4 window with one of each thing that is acted on; `rows` makes it as large as is wanted.

A second argument gives it a title bar of its own, as GNOME's applications have.
"""

from __future__ import annotations

import itertools
import sys

import gi

gi.require_version("Gtk", "4.0")
from gi.repository import Gtk  # noqa: E402


def open_window(app: Gtk.Application, rows: int, bar: bool) -> None:
    window = Gtk.ApplicationWindow(
        application=app, title="GTK 4 sample", default_width=500, default_height=400
    )
    box, grid = Gtk.Box(orientation=Gtk.Orientation.VERTICAL), Gtk.Grid()
    status, entry = Gtk.Label(label="idle"), Gtk.Entry(text="old")
    entry.update_property([Gtk.AccessibleProperty.LABEL], ["Name"])
    build = Gtk.Button(label="Build")
    build.connect("clicked", lambda _: status.set_text("built"))
    count, times = Gtk.Button(label="Count"), itertools.count(1)
    count.connect("clicked", lambda _: status.set_text(f"counted {next(times)}"))
    scrolled = Gtk.ScrolledWindow(vexpand=True, child=grid)
    for part in (status, entry, Gtk.CheckButton(label="Verbose"), build, count, scrolled):
        box.append(part)
    for row in range(rows):
        grid.attach(Gtk.Label(label=f"Row {row}"), 0, row, 1, 1)
        grid.attach(Gtk.Button(label=f"Button {row}"), 1, row, 1, 1)
        grid.attach(Gtk.Entry(text=f"value {row}"), 2, row, 1, 1)
        grid.attach(Gtk.CheckButton(label=f"Option {row}"), 3, row, 1, 1)
    window.set_child(box)
    if bar:
        window.set_titlebar(Gtk.HeaderBar())
    window.present()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    application = Gtk.Application(application_id="org.example.Gtk4Sample")
    application.connect("activate", lambda app: open_window(app, count, len(sys.argv) > 2))
    application.run([])
