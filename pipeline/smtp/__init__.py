"""One conversation with a mail server: bytes, a bounded connection, a session up to RCPT."""
