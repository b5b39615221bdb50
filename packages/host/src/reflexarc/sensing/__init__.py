"""Sensing: from frames, serial text and power state to the phase a machine is in."""
