"""The operator console: what flows, what does not and why, and the levers."""
