"""Every code the product can raise has its HTTP status, or is known to stay inside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mailsift.api.http.errors import STATUS_OF

ROOT = Path(__file__).parents[3]
FOLDERS = ("api", "accounts", "mailsift", "jobs", "events", "storage", "pipeline")
CODE = re.compile(r'(?:MailsiftError|Refused|RefusedError)\(\s*"([a-z_0-9]+)"')

INTERNAL: Final[frozenset[str]] = frozenset(
    {
        "bad_blob_key",
        "bad_connections",
        "bad_opt_outs",
        "bad_overrides",
        "bad_peppers",
        "bad_reply",
        "bad_settings",
        "bad_source",
        "bad_usage",
        "blob_damaged",
        "blob_not_found",
        "checker_closed",
        "column_taken",
        "database_busy",
        "database_encoding",
        "database_foreign",
        "dns_servers_invalid",
        "embedded_failed",
        "embedded_missing",
        "factor_off",
        "file_not_found",
        "file_not_readable",
        "finalizing_crashed",
        "forked_with_frames",
        "job_ambiguous",
        "mail_failed",
        "not_a_file",
        "not_a_list",
        "not_text",
        "otel_missing",
        "output_is_input",
        "output_not_writable",
        "port_in_use",
        "resolver_failed",
        "results_incomplete",
        "secret_key_missing",
        "unknown_mode",
        "unsafe_command",
        "worker_failed",
    }
)
"""Codes of the command line, the library, settings and defects: through HTTP they are an internal error."""


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
