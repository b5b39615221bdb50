"""Applications as the desktop knows them: its entries, starting them, their windows, the clipboard."""
