"""A D-Bus client of the standard library alone: a pure protocol, and one asyncio shell around it."""
