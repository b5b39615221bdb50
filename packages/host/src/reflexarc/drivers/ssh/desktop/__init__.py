"""The desktop of a guest, through the programs that it has."""
