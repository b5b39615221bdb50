"""The accessibility tree of Linux desktops, through AT-SPI2."""
