"""Runs: the journal, the runner that drives a playbook on a machine, replies, telemetry, sessions."""
