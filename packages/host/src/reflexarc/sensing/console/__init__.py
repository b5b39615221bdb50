"""Reading text consoles: exactly, by bitmap glyphs on a grid of cells, or over a picture by likeness to glyphs."""

from reflexarc.sensing.console.overlay import OverlayReader
from reflexarc.sensing.console.reader import ConsoleReader

__all__ = ["ConsoleReader", "OverlayReader"]
