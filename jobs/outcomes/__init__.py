"""What happened when lists were sent to: taken in, remembered for the account, and used."""
