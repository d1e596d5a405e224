"""Every code the product can raise has its HTTP status, or is known to stay inside."""

from __future__ import annotations

import re
from pathlib import Path

from mailsift.api.http.errors import INTERNAL, STATUS_OF

ROOT = Path(__file__).parents[3]
FOLDERS = ("api", "accounts", "mailsift", "jobs", "events", "storage", "pipeline")
CODE = re.compile(r'(?:MailsiftError|Refused|RefusedError|RateLimitedError)\(\s*"([a-z_0-9]+)"')


def _raised() -> set[str]:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return {code for file in files for code in CODE.findall(file.read_text())}


def test_every_code_is_in_the_table_or_stays_inside() -> None:
    raised = _raised()
    assert len(raised) > 50
    assert raised - set(STATUS_OF) - INTERNAL == set()


def test_no_code_is_both() -> None:
    assert set(STATUS_OF) & INTERNAL == set()
    assert all(400 <= status <= 507 for status in STATUS_OF.values())
