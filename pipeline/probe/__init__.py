"""Asks mail servers about mailboxes: who is asked next, within which limits, and what the answers mean."""
