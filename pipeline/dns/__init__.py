"""What DNS says about the mail of a domain: questions by the thousand, answers as facts."""
