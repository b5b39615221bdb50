"""Builders of real guests for tests and benchmarks, and the recorder of their screens."""
