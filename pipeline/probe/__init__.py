"""Asks mail servers about mailboxes: who is asked next, how politely, and what the answers mean."""
