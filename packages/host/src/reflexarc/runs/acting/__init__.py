"""What the actions of playbooks do: one module a kind, one function an action."""
