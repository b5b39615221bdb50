"""The MCP server: machines for AI agents, behind the same guard as everything else."""
