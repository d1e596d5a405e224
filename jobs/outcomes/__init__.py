"""What happened when lists were sent to: taken in, remembered for the account, and used."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 64 * 1024**2
"""What a file of outcomes may have, unpacked; longer ones come in parts."""
