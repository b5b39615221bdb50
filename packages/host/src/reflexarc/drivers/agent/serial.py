"""A serial port of QEMU's, on which one stream carries every conversation."""
