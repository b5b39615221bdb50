"""Backends: the operating systems' own interfaces, one folder a system."""
