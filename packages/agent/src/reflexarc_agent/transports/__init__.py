"""How hosts reach the agent."""
