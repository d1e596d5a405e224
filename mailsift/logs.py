"""Logs are events with fields, one JSON object a line on stderr; never an address, key or secret."""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

from mailsift.redaction import is_harmless, redacted
from mailsift.settings import LogLevel
from pipeline import spans

_LEVELS: Final[dict[LogLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_MOST_FRAMES: Final = 12
_log = structlog.get_logger()


class _Handler(logging.StreamHandler[TextIO]):
    """Writes what the libraries log."""

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Tell of a record that cannot be written without its words."""
        _log.warning("log.broken", source=record.name)


def configure_logs(level: int = logging.WARNING) -> None:
    """Send the house's events, and the warnings of libraries and of Python, to stderr.

    Args:
        level: of the house's events; libraries tell warnings and worse.
    """
    structlog.configure(
        processors=[*_TOLD, _plain, _json],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),  # one write a line
    )
    handler = _Handler(sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_words, structlog.stdlib.add_logger_name, *_TOLD],
            processors=[ProcessorFormatter.remove_processors_meta, _plain, _json],
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
    configure_logs(_LEVELS[level])
    sys.excepthook = _uncaught
    threading.excepthook = lambda found: _uncaught(found.exc_type, found.exc_value, found.exc_traceback)


def _uncaught(kind: type[BaseException], _: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.error("uncaught", error=f"{kind.__module__}.{kind.__qualname__}", places=_places(trace))


def _words(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
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


def _trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the trace that is being written, unless the event names one."""
    if trace := spans.current().trace:
        event.setdefault("trace", trace)
    return event


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


def _plain(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Make every field something JSON knows, redacted."""
    if is_harmless(event.values()):
        return event
    return {str(name): redacted(value) for name, value in event.items()}


_TOLD: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _trace,
    _exception,
)
_ENCODE: Final = json.JSONEncoder().encode


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    """Write what _plain has left, by an encoder that is made once."""
    return _ENCODE(event)
