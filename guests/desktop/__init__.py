"""Desktop sessions without a screen, and applications of several toolkits to read and act on."""
