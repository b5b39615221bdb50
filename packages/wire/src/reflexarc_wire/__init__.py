"""The protocol between the host and the in-guest agent (no messages yet)."""
