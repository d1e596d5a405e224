"""Logs are events with fields, one JSON object a line on stderr; never an address, key or secret."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: int = logging.WARNING) -> None:
    """Send the house's events and the libraries' warnings to stderr."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log whole URLs
