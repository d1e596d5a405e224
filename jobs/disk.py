"""A disk that is full, found out where a library only says that writing failed."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

_ROOM = 65_536  # the head of a file of ours, and more


def check_room(folder: Path) -> None:
    """Write a little into the folder, and take it away again.

    Raises:
        OSError: what comes of that now.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        if file.write(bytes(_ROOM)) < _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
