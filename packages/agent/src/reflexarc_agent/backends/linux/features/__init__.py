"""What a Linux desktop lets the agent serve, as its backends, one module a feature."""
