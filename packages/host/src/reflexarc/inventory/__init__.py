"""The inventory: the machines there are, and the one place where they are opened."""
