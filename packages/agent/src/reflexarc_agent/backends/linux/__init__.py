"""Linux: AT-SPI2 for the accessibility tree, X11 for pixels and input."""
