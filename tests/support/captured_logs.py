"""The logs of the product for the time of a test, and everything as it was afterwards."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from mailsift.logs import configure_logs


@contextmanager
def our_logs(level: int = logging.INFO) -> Iterator[None]:
    """Log as a server does, to where stderr goes now."""
    with logs_as_before():
        configure_logs(level)
        yield


@contextmanager
def logs_as_before() -> Iterator[None]:
    """Leave nothing behind that would go on writing to this test's stderr."""
    levels = {name: logging.getLogger(name).level for name in ("", "httpx")}
    hooks = sys.excepthook, threading.excepthook
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(capture=False)
        root.handlers = handlers
        sys.excepthook, threading.excepthook = hooks
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)
