"""Exact reading of text consoles: bitmap glyphs on a grid of cells, compared bit by bit."""

from reflexarc.sensing.console.reader import ConsoleReader

__all__ = ["ConsoleReader"]
