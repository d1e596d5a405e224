"""What mail servers say, read by meaning: one table of rules and the words they are made of."""
