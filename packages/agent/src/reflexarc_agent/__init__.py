"""The in-guest agent (no operations yet)."""
