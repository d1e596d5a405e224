"""Standard streams that are closed, take no more (a full disk, a reader that is gone), or are a terminal."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import IO, Any, NoReturn, TextIO

from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError


def open_what_is_closed() -> None:
    """Give /dev/null to a standard stream that is closed (`2>&-`, and some supervisors).

    A socket or file of ours would else get its number, and what others write to their stderr. Who writes to
    standard output all the same is told that nobody gets it.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is the stream's own
            os.set_inheritable(number, True)  # noqa: FBT003 - so it is defined
            if name == "stdout":
                sys.stdout = io.TextIOWrapper(ClosedOutput(), encoding="utf-8", write_through=True)
            else:
                setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8"))


class ClosedOutput(io.RawIOBase):
    """What stands below standard output when that is closed: it keeps nothing back and takes nothing."""

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: object, /) -> NoReturn:
        raise MailsiftError("output_not_writable", "Standard output is closed.")


def check_out() -> None:
    """Refuse to begin what would be shown to nobody, with what ClosedOutput says."""
    if isinstance(sys.stdout.buffer, ClosedOutput):
        sys.stdout.buffer.write(b"")


def let_go(stream: IO[Any]) -> None:
    """Let go nowhere what a stream has not taken, and what follows: the interpreter tries it again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def printable(text: str) -> str:
    """Write hostile input as text: without control characters, which a terminal obeys."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class Watched:
    """Standard error for who shows progress there: no work ends because nobody can watch it."""

    @property
    def encoding(self) -> str:
        """Of the stream."""
        return _stderr().encoding

    def write(self, text: str) -> int:
        """Write what can be written; the rest is lost."""
        try:
            return _stderr().write(text)
        except OSError:
            let_go(_stderr())
            return len(text)

    def flush(self) -> None:
        """Do what `write` does."""
        try:
            _stderr().flush()
        except OSError:
            let_go(_stderr())

    def isatty(self) -> bool:
        """Say whether somebody sees it at once."""
        return _stderr().isatty()

    def fileno(self) -> int:
        """Return its descriptor."""
        return _stderr().fileno()


def _stderr() -> TextIO:
    """Return the stream of this moment: a live line puts something of its own in its place."""
    found: TextIO = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    return found
