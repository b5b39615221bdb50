"""The agent inside a guest: runs commands and moves files for the host, on the standard library alone."""

VERSION = "0.1.0"
