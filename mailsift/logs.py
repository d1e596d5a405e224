"""Logs are events with fields, one JSON object a line on stderr; never an address, key or secret.

Redaction is the last line of defence: what looks like one of those is replaced.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO, TypeAlias, cast

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from mailsift.settings import LogLevel

_MOST_FRAMES: Final = 12
_log = structlog.get_logger()


class _Lossy:
    """A stream for logs: what it cannot take (a full disk, a reader that is gone) is lost, stops no work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the latter when it is closed
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _Handler(logging.StreamHandler[TextIO]):
    """Writes what the libraries log."""

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Tell of a record that cannot be written without its words."""
        _log.warning("log.broken", source=record.name)


def configure_logs(level: int = logging.WARNING) -> None:
    """Send Mailsift's events of this level, and the warnings of libraries and of Python, to stderr."""
    stream = cast("TextIO", _Lossy(sys.stderr))
    structlog.configure(
        processors=[*_PROCESSORS, _as_json_values, _json],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),  # one write a line
    )
    handler = _Handler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_without_foreign_text, structlog.stdlib.add_logger_name, *_PROCESSORS],
            processors=[ProcessorFormatter.remove_processors_meta, _as_json_values, _json],
            use_get_message=False,
            pass_foreign_args=True,
        )
    )
    root = logging.getLogger()
    root.handlers = [*(other for other in root.handlers if not isinstance(other, _Handler)), handler]
    root.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log whole URLs


def configure_server_logs(level: LogLevel) -> None:
    """Do the same for a process that serves, where what nobody catches is told without its words, too."""
    configure_logs(logging.getLevelNamesMapping()[level.upper()])
    sys.excepthook = _uncaught
    threading.excepthook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)


def _uncaught(kind: type[BaseException], _: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.error("uncaught", error=f"{kind.__module__}.{kind.__qualname__}", places=_places(trace))


def _without_foreign_text(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Keep of a library's message what is the library's own: exceptions have no words, and nothing two lines.

    A message that tells of an exception often quotes it, so that one is left unformatted.
    """
    record: logging.LogRecord = event["_record"]
    words, values = str(_wordless(record.msg)), event.pop("positional_args")
    if values and not record.exc_info:
        words %= _wordless_all(values)
    event["event"] = words.partition("\n")[0]
    return event


def _wordless(value: object) -> object:
    return type(value).__qualname__ if isinstance(value, BaseException) else value


def _wordless_all(values: tuple[object, ...] | Mapping[str, object]) -> object:
    if isinstance(values, Mapping):
        return {name: _wordless(value) for name, value in values.items()}
    return tuple(_wordless(value) for value in values)


def _exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Tell an exception by its class and its places: its words may hold anything."""
    event.pop("stack_info", None)
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event.setdefault("error", f"{type(error).__module__}.{type(error).__qualname__}")
        event["places"] = _places(error.__traceback__)
    return event


def _places(trace: TracebackType | None) -> list[str]:
    """Return file and line of the innermost frames, the innermost last."""
    frames = traceback.extract_tb(trace)[-_MOST_FRAMES:]
    return [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]


def _as_json_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Make every field something JSON knows, redacted."""
    if is_harmless(event.values()):
        return event
    return {str(name): redacted(value) for name, value in event.items()}


_PROCESSORS: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _exception,
)
_ENCODE: Final = json.JSONEncoder().encode


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    """Write what _as_json_values has left, by an encoder that is made once."""
    return _ENCODE(event)


Plain: TypeAlias = str | int | float | bool | list["Plain"] | dict[str, "Plain"] | None
"""What JSON can hold."""

ADDRESS: Final = "[address]"
SECRET: Final = "[secret]"  # noqa: S105 - it stands for one
LONGEST_LINE: Final = 2_000
"""Characters that are kept of a text."""

_DEEPEST: Final = 6
_SECRET: Final = re.compile(r"(?:svc_[a-z]+_|whsec_)[^\s\"'<>,;]*", re.IGNORECASE)
_AT: Final = re.compile(r"[@\uff20\ufe6b]|%(?:25)*40")
"""The sign, of another width, percent-encoded once or more."""
_SIGNS: Final = ("@", "%", "\uff20", "\ufe6b", "svc_", "whsec_")
"""No text without one of these is changed."""
_PLAIN: Final = (str, int, float)  # a union of them would be made anew for every value of a line
_QUOTED: Final = re.compile(rf'"[^"]{{0,80}}"(?:{_AT.pattern})\S*')
_WORD: Final = re.compile(r"[^\s<>\"]+")


def is_harmless(values: Collection[object]) -> bool:
    """Tell whether redaction would leave these values as they are: plain ones, and no text has a bad sign.

    One look at all of them, for nearly every line of the log is like that.
    """
    together = "\n".join([value for value in values if isinstance(value, str)])
    if len(together) > LONGEST_LINE or not all(isinstance(value, _PLAIN) for value in values):
        return False
    low = together.lower()
    return not any(map(low.__contains__, _SIGNS))


def redact(text: str) -> str:
    """Replace what looks like an address, an API key or a webhook secret.

    Generous on purpose: every word with an at sign goes, and so do the credentials of a URL.
    """
    text = _SECRET.sub(SECRET, text)
    if _AT.search(text):
        text = _WORD.sub(_without_address, _QUOTED.sub(ADDRESS, text))
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}..."


def _without_address(word: re.Match[str]) -> str:
    return ADDRESS if _AT.search(word[0]) else word[0]


def redacted(value: object, depth: int = 0) -> Plain:
    """Return any value as JSON holds it, redacted, keys of mappings too; what lies too deep is left out.

    An exception becomes its class, what JSON does not know becomes text.
    """
    if isinstance(value, str):  # first, because most are, and every line of the log passes here
        return redact(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _nested(value, depth + 1)
    if isinstance(value, BaseException):
        return type(value).__qualname__
    if isinstance(value, bytes | bytearray):
        return redact(bytes(value).decode("utf-8", "replace"))
    return redact(str(value))


def _nested(value: Collection[object], depth: int) -> Plain:
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {redact(str(key)): redacted(item, depth) for key, item in value.items()}
    return [redacted(item, depth) for item in value]
