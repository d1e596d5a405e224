"""Variables that are meant for other programs, or that libraries take in another sense than who set them."""

from __future__ import annotations

import os
import sys
import warnings

_WITHOUT_SENSE = (("POLARS_MAX_THREADS", "0"), ("COLUMNS", "0"))
"""To who writes it, zero is as many as there are; one library panics at it, one shows tables of no width."""


def settle_environment() -> None:
    """Let nothing that is meant for others end a command, or a process that it starts."""
    for name, value in _WITHOUT_SENSE:
        if os.environ.get(name) == value:  # noqa: TID251 - for a library
            del os.environ[name]  # noqa: TID251 - for a library
    # a folder of somebody else's counts: a worker makes its own
    os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)  # noqa: TID251 - for a library
    if any(option.startswith("e") for option in sys.warnoptions):
        warnings.simplefilter("default")  # an error is what a warning is in tests, and a line of the log here
