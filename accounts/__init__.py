"""Who may: people, their sessions and roles, one-time links, passwords and API keys."""
