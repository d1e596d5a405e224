"""Cells become addresses: tidied, judged by email-validator, written one way."""
