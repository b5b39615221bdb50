"""A Qt 6 window with one of each thing that is acted on; `rows` makes it as large as is wanted."""

from __future__ import annotations

import itertools
import sys

from PyQt6 import QtWidgets


class Window(QtWidgets.QWidget):  # type: ignore[misc]
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.setWindowTitle("Qt 6 sample")
        layout = QtWidgets.QVBoxLayout(self)
        self.status, self.entry = QtWidgets.QLabel("idle"), QtWidgets.QLineEdit("old")
        self.entry.setAccessibleName("Name")
        build, ask, count = (QtWidgets.QPushButton(name) for name in ("Build", "Ask", "Count"))
        build.clicked.connect(lambda: self.status.setText("built"))
        ask.clicked.connect(self.ask)
        times = itertools.count(1)
        count.clicked.connect(lambda: self.status.setText(f"counted {next(times)}"))
        level = QtWidgets.QSlider()
        level.setAccessibleName("Level")
        for part in (
            self.status,
            self.entry,
            QtWidgets.QCheckBox("Verbose"),
            level,
            build,
            ask,
            count,
            self.grid(rows),
        ):
            layout.addWidget(part)
        self.resize(500, 400)
        self.show()

    def grid(self, rows: int) -> QtWidgets.QWidget:
        area, inner = QtWidgets.QScrollArea(), QtWidgets.QWidget()
        grid = QtWidgets.QGridLayout(inner)
        for row in range(rows):
            grid.addWidget(QtWidgets.QLabel(f"Row {row}"), row, 0)
            grid.addWidget(QtWidgets.QPushButton(f"Button {row}"), row, 1)
            grid.addWidget(QtWidgets.QLineEdit(f"value {row}"), row, 2)
            grid.addWidget(QtWidgets.QCheckBox(f"Option {row}"), row, 3)
        area.setWidget(inner)
        return area

    def ask(self) -> None:
        """The action that opened this dialog answers only when it closes."""
        yes = QtWidgets.QMessageBox.StandardButton.Yes
        no = QtWidgets.QMessageBox.StandardButton.No
        answer = QtWidgets.QMessageBox.question(self, "Question", "Sure?", yes | no)
        self.status.setText("agreed" if answer == yes else "refused")


if __name__ == "__main__":
    application = QtWidgets.QApplication(sys.argv[:1])
    application.setApplicationName("qt6")
    window = Window(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    application.exec()
