"""Cells become addresses: tidied, parsed, written one way."""
