"""The agent inside a guest, as a driver: commands, files, applications, the accessibility tree, and pixels if asked."""
