"""Octets that are no UTF-8 in a text that is: files are put together from others."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

AS_WINDOWS: Final = "mailsift.windows-1252"
"""The error handler that reads each of them as Windows-1252, by itself."""
_BLOCK: Final = 1 << 20
_UTF8_LETTER: Final = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""A character beyond ASCII, as UTF-8 writes it (RFC 3629 section 4)."""
_ASCII: Final = bytes(range(128))


def is_mostly_utf8(path: Path) -> bool:
    """Say whether most characters beyond ASCII are written as UTF-8, as hardly any in Windows-1252 look."""
    letters = others = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = _UTF8_LETTER.findall(block)
            letters += len(found)
            others += len(block.translate(None, _ASCII)) - sum(map(len, found))
    return letters > others


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Return what Windows-1252 takes the octets for that are no UTF-8, and where they end."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    octets = error.object[error.start : error.end]
    try:
        return octets.decode("cp1252"), error.end
    except UnicodeDecodeError:  # five octets mean nothing there
        return octets.decode("latin-1"), error.end


codecs.register_error(AS_WINDOWS, _as_windows)
