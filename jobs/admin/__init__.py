"""What operators see of the whole installation and what they may do to it, on pages and in the terminal."""
