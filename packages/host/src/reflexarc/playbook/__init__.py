"""Playbooks: the loader, the one step model, the pure engine."""
