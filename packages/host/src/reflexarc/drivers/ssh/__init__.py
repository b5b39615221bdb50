"""Machines that are reached over SSH, by the system's OpenSSH."""
