"""What watching a QEMU machine costs, and whether going back and switching modes lose anything."""
