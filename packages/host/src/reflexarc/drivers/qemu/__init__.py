"""QEMU as a machine: started detached, driven over QMP, watched through its D-Bus display."""
