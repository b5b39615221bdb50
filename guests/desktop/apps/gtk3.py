"""A GTK 3 window with one of each thing that is acted on; `rows` makes it as large as is wanted.

A second argument gives it a title bar of its own, as GNOME's applications have.
"""

from __future__ import annotations

import sys
import time

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import GLib, Gtk  # noqa: E402


class Window(Gtk.Window):  # type: ignore[misc]
    def __init__(self, rows: int, bar: bool) -> None:
        super().__init__(title="GTK 3 sample")
        self.set_default_size(500, 400)
        if bar:
            self.set_titlebar(Gtk.HeaderBar(title="GTK 3 sample"))
        box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
        self.times = 0
        self.status = Gtk.Label(label="idle")
        self.entry = Gtk.Entry(text="old")
        self.entry.get_accessible().set_name("Name")
        secret = Gtk.Entry(text="hunter2", visibility=False)
        secret.get_accessible().set_name("Secret")
        scale = Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1)
        scale.get_accessible().set_name("Level")
        check = Gtk.CheckButton(label="Verbose")
        parts = [self.status, self.entry, secret, scale, check]
        parts += [self.button("Build", lambda _: self.status.set_text("built"))]
        parts += [self.button("Ask", self.ask), self.button("Add", self.add), self.button("Drop", self.drop)]
        parts += [
            self.button("Rename", lambda button: button.set_label("Renamed")),
            self.button("Later", self.later),
            self.button("Count", self.count),
        ]
        for part in parts:
            box.pack_start(part, False, False, 0)
        self.added = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
        box.pack_start(self.added, False, False, 0)
        box.pack_start(self.grid(rows), True, True, 0)
        self.add_widget(box)
        self.connect("destroy", Gtk.main_quit)
        self.show_all()

    def add_widget(self, box: Gtk.Widget) -> None:
        super().add(box)

    def button(self, label: str, act: object) -> Gtk.Button:
        button = Gtk.Button(label=label)
        button.connect("clicked", act)
        return button

    def grid(self, rows: int) -> Gtk.Widget:
        scrolled, grid = Gtk.ScrolledWindow(), Gtk.Grid()
        for row in range(rows):
            grid.attach(Gtk.Label(label=f"Row {row}"), 0, row, 1, 1)
            grid.attach(Gtk.Button(label=f"Button {row}"), 1, row, 1, 1)
            field = Gtk.Entry(text=f"value {row}")
            field.get_accessible().set_name(f"Field {row}")
            grid.attach(field, 2, row, 1, 1)
            grid.attach(Gtk.CheckButton(label=f"Option {row}"), 3, row, 1, 1)
        scrolled.add(grid)
        return scrolled

    def ask(self, _: Gtk.Button) -> None:
        dialog = Gtk.MessageDialog(
            transient_for=self, modal=True, buttons=Gtk.ButtonsType.OK_CANCEL, text="Sure?"
        )
        answer = dialog.run()
        self.status.set_text("agreed" if answer == Gtk.ResponseType.OK else "refused")
        dialog.destroy()

    def add(self, _: Gtk.Button) -> None:
        self.added.pack_start(Gtk.Button(label="Added"), False, False, 0)
        self.added.show_all()

    def drop(self, _: Gtk.Button) -> None:
        for child in self.added.get_children():
            self.added.remove(child)

    def count(self, _: Gtk.Button) -> None:
        self.times += 1
        self.status.set_text(f"counted {self.times}")

    def later(self, _: Gtk.Button) -> None:
        """Change 300 ms later, and say when that was, by the clock that all processes share."""
        GLib.timeout_add(300, self.done)

    def done(self) -> bool:
        self.times += 1
        print(time.monotonic(), flush=True)
        self.status.set_text(f"done {self.times}")
        return False


if __name__ == "__main__":
    Window(int(sys.argv[1]) if len(sys.argv) > 1 else 3, len(sys.argv) > 2)
    Gtk.main()
