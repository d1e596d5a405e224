"""The one root of Mailsift's errors."""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import override

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OUTAGES = _FULL | {
    errno.EIO,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.ESTALE,
    errno.ENXIO,
    errno.ENODEV,
    errno.EMFILE,
    errno.ENFILE,
}
_OS_ERROR = re.compile(r"\(os error (\d+)\)|\bcode: (\d+), kind:")  # as Rust writes it

PANIC = "PanicException"
"""What polars raises when it panics, which is no Exception; by its name, as the library is loaded late."""

_NO_THREAD = re.compile(r"can't start new thread")
_NO_FRAMES = re.compile(r"Resource temporarily unavailable|LazyLock .* been poisoned")


class MailsiftError(Exception):
    """Something a caller can act on.

    Attributes:
        code: stable machine code in snake_case; part of the contract.
        message: one English sentence for people; may change; never holds an address, key or secret.
        retryable: whether the same call may succeed later without a change.
    """

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Let it go to another process, as pools and task queues send it: whatever `__init__` takes."""
        return _made_again, (type(self), *self.args), self.__dict__


def _made_again(kind: type[MailsiftError], *args: object) -> MailsiftError:
    return kind.__new__(kind, *args)


class SuspectError(MailsiftError):
    """What may pass, or come again and again because of what was asked for: a few tries tell."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, retryable=True)


class NoThreadsError(MailsiftError):
    """A process of ours was given no threads."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message, retryable=True)


class SuppressCodes:
    """Ends a block where an error with one of these codes is raised in it, as `contextlib.suppress` does."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, MailsiftError) and error.code in self._codes


def outage_of(error: BaseException) -> int:
    """Return what the system says is wrong with a disk or file of ours (errno), 0 when nothing of the kind.

    It may stand in the words of an error, or in one that led to it.
    """
    for one in causes_of(error):
        number = one.errno if isinstance(one, OSError) else None
        if number is None and (match := _OS_ERROR.search(str(one))):
            number = int(match[1] or match[2])
        if number in _OUTAGES:
            return number or 0
    return 0


def is_full(error: BaseException) -> bool:
    """Say whether a disk has no room left, or a quota is used up."""
    return outage_of(error) in _FULL


def lacks_threads(error: BaseException) -> bool:
    """Say whether the system gave no thread or no process: as many run as the user or the unit may have."""
    return lacks_frames(error) or any(
        isinstance(one, NoThreadsError | BlockingIOError) or _NO_THREAD.search(str(one))
        for one in causes_of(error)
    )


def lacks_frames(error: BaseException) -> bool:
    """Say whether polars got no threads when it began, or no room (`ulimit -v`): it works no more here then.

    It asks once. Where its library found no room, it is there without the names that this defines.
    """
    found = [*causes_of(error)]
    if any(isinstance(one, NameError) for one in found) and "polars._plr" not in sys.modules:
        return True
    return any(type(one).__name__ == PANIC and _NO_FRAMES.search(str(one)) for one in found)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and what led to it, one by one."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def error_fields(error: Exception) -> dict[str, str]:
    """Name an error (ours by its code) and its place without its words: they may hold an address."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, MailsiftError):
        return {"error": error.code, "at": place}
    return {"error": f"{type(error).__module__}.{type(error).__qualname__}", "at": place}
