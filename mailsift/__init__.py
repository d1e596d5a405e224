"""Mailsift: is this address good? As a library, `check` and `check_many`; the rest turns the service on.

>>> import mailsift
>>> mailsift.check("jane.doe@example.com", mode="fast").status
<Status.VALID: 'valid'>

Importing it loads nothing: no server, no frames, no settings. That happens at the first call.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mailsift.frame_namespace import register_namespace

if TYPE_CHECKING:
    from mailsift.library import (
        Checker,
        CheckResult,
        DeepModeWarning,
        acheck,
        acheck_many,
        check,
        check_many,
    )
    from mailsift.pipeline.errors import MailsiftError
    from mailsift.pipeline.verdict import VerdictPolicy

__all__ = [
    "CheckResult",
    "Checker",
    "DeepModeWarning",
    "MailsiftError",
    "VerdictPolicy",
    "acheck",
    "acheck_many",
    "check",
    "check_many",
]

_HOMES = {
    "MailsiftError": "mailsift.pipeline.errors",
    "VerdictPolicy": "mailsift.pipeline.verdict",
}
"""Where the names are that are not in `mailsift.library`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES.get(name, "mailsift.library")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_namespace()
