"""What really happened when messages were sent, as senders and mail servers report it."""
