"""Writes the page that browsers are given."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, rows: int) -> Path:
    """Write a page with a table of links, buttons and fields."""
    cells = "".join(
        f'<tr><td>Row {row}</td><td><a href="#{row}">Link {row}</a></td><td><button>Button {row}</button></td>'
        f'<td><input aria-label="Field {row}" value="value {row}"></td></tr>'
        for row in range(rows)
    )
    press = "document.getElementById('status').textContent = 'built'"
    count = "document.getElementById('status').textContent = 'counted ' + (this.times = -~this.times)"
    path.write_text(
        f"<!doctype html><title>Sample page</title><h1>Rows</h1><p id=status>idle</p>"
        f'<button onclick="{press}">Build</button><button onclick="{count}">Count</button>'
        f"<input aria-label=Name value=old>"
        f"<table>{cells}</table>"
    )
    return path
