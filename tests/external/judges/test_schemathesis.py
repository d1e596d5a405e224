"""schemathesis judges the whole API of running processes: every operation, every check, two accounts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.external.judges.judged_installation import JudgedInstallation
from tests.external.judges.sample_objects import plant
from tests.external.judges.schemathesis_run import Report, schemathesis

CHECKS = {
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
    "object_level_authorization",
}
CASES = 2_500
PHASES = ("examples", "coverage", "fuzzing", "stateful")
ANYWAY = (401, 403, 404, 409, 429)
"""Statuses that have nothing to do with what was sent."""
UNFIT = {400, 413, 415, 422, 431}
"""Statuses that say that it cannot be taken."""

# What a schema cannot say: right by the schema, and yet a 4xx with one of these codes.
BEYOND_SCHEMA: Mapping[str, set[str]] = {
    "POST /v1/bulk/jobs": {"empty_file", "bad_place"},
    "POST /v1/outcomes": {
        "bad_csv",
        "bad_json",
        "bad_parquet",
        "binary_file",
        "empty_file",
        "no_address_column",
        "no_outcome_column",
        "unsupported_format",
    },
    "POST /v1/outcomes/receivers": {"receiver_key_invalid"},
    "POST /v1/outcomes/receivers/{receiver_id}/rotate": {"receiver_key_invalid"},
    "POST /v1/public-keys": {"bad_origin", "public_key_limit"},
    "PATCH /v1/public-keys/{public_key_id}": {"bad_origin"},
    "GET /v1/public-keys": {"bad_cursor"},
    "GET /v1/suppressions": {"bad_cursor"},
    "POST /v1/suppressions/import": {
        "bad_csv",
        "bad_json",
        "bad_parquet",
        "binary_file",
        "empty_file",
        "no_address_column",
        "unsupported_format",
    },
    "GET /v1/bulk/jobs": {"bad_cursor"},
    "GET /v1/bulk/schedules": {"bad_cursor"},
    "GET /v1/bulk/schedules/{schedule_id}/runs": {"bad_cursor"},
    "GET /v1/webhooks": {"bad_cursor"},
    "GET /v1/webhooks/{webhook_id}/deliveries": {"bad_cursor"},
    "GET /v1/bulk/jobs/{job_id}/plan": {
        "bad_csv",
        "bad_encoding",
        "bad_gzip",
        "bad_json",
        "binary_file",
        "unclosed_quote",
        "unsupported_format",
    },
    "GET /v1/bulk/jobs/{job_id}/results": {"unknown_column", "bad_cursor", "wrong_for_format"},
    "GET /v1/events": {"bad_cursor"},
    "GET /v1/usage": {"usage_range_invalid"},
    "GET /v1/accuracy": {"accuracy_range_invalid"},
    "POST /v1/webhooks": {"webhook_url_invalid"},
    "PATCH /v1/webhooks/{webhook_id}": {"webhook_url_invalid"},
    "POST /v1/bulk/schedules": {
        "schedule_needs_list",
        "bad_place",
        "schedule_cron_invalid",
        "schedule_zone_invalid",
        "schedule_jitter_too_long",
        "schedule_ended",
    },
    "PATCH /v1/bulk/schedules/{schedule_id}": {
        "schedule_cron_invalid",
        "schedule_zone_invalid",
        "schedule_jitter_too_long",
        "schedule_ended",
    },
}
# Values that only we can know, by pattern of the operation: a later line goes before an earlier one.
KNOWN: tuple[tuple[str, str, str], ...] = (
    (r".* /v1/bulk/jobs/{job_id}.*", "path.job_id", "ended"),
    (r".*/(estimate|promote)", "path.job_id", "previews"),
    (r".*/jobs/.*/(pause|resume)", "path.job_id", "held"),
    (r".*/diff", "query.against", "runs"),
    (r".* /v1/webhooks/{webhook_id}.*", "path.webhook_id", "hooks"),
    (r".*/deliveries/{delivery_id}.*", "path.delivery_id", "deliveries"),
    (r".*/schedules/{schedule_id}.*", "path.schedule_id", "schedules"),
    (r"DELETE .*/schedules/{schedule_id}", "path.schedule_id", "doomed_schedules"),
    (r"DELETE .*/jobs/{job_id}", "path.job_id", "doomed_jobs"),
    (r"POST .*/jobs/{job_id}/cancel", "path.job_id", "doomed_held"),
    (r"(DELETE|PATCH) .*/webhooks/{webhook_id}", "path.webhook_id", "doomed_hooks"),
    (r".*/schedules.*", "body.cron", "crons"),
    (r".*/schedules.*", "body.zone", "zones"),
    (r".*/schedules.*", "body.ends_at", "ends"),
    (r"POST .*/schedules", "body.job_id", "ended"),
    (r"POST .*/schedules", "body.source", "nowhere"),
    (r"POST .*/schedules", "body.sink", "nowhere"),
    (r"POST .*/webhooks/test", "body.webhook_id", "hooks"),
    (r".* /v1/events/{event_id}", "path.event_id", "events"),
)
WORDS: Mapping[str, list[str]] = {
    "crons": ["0 6 * * 1", "*/5 * * * *"],
    "nowhere": [""],
    "zones": ["UTC", "Europe/Berlin"],
    "ends": ["2099-12-31T00:00:00Z"],
}
WAIT = "GET /v1/bulk/jobs/{job_id}"
_ALWAYS = """\
[checks.negative_data_rejection]  # a very long value is refused before anybody reads it
expected-statuses = [400, 401, 403, 404, 406, 409, 413, 415, 422, 428, 429, 431]
[phases.stateful.inference]  # only the links that we document
algorithms = []
[phases.stateful.generation]
max-examples = 12
[phases.fuzzing.generation]
max-examples = 8
"""


def _config(operations: Iterable[str], ids: Mapping[str, list[str]]) -> str:
    words = {**ids, **WORDS}
    tables = [f"[dictionaries.{name}]\nvalues = {json.dumps(values)}" for name, values in words.items()]
    return "\n".join((*tables, *map(_operation, operations), _ALWAYS))


def _beyond_schema(label: str) -> set[str]:
    """Return the codes that may answer what the schema allows; a key that was used is every POST's."""
    used = {"idempotency_key_reused"} if label.startswith("POST ") else set()
    return BEYOND_SCHEMA.get(label, set()) | used


def _operation(label: str) -> str:
    """Write one table of everything about an operation: of two that match, only one would count."""
    lines = [f'[[operations]]\ninclude-name = "{label}"', "[operations.parameters]"]
    known = {parameter: name for pattern, parameter, name in KNOWN if re.fullmatch(pattern, label)}
    lines += [f'"{one}" = {{ dictionary = "{name}", probability = 0.6 }}' for one, name in known.items()]
    if label == WAIT:
        lines.append('"query.wait" = 0.2  # a job that is held would keep the judge waiting')
    if _beyond_schema(label):
        statuses = ["2xx", *ANYWAY, 415, 422]
        lines.append(f"[operations.checks.positive_data_acceptance]\nexpected-statuses = {statuses}")
    return "\n".join(lines)


@pytest.mark.timeout(900)  # thousands of requests, and other tests beside them
async def test_every_operation_keeps_its_word(judged: JudgedInstallation, tmp_path: Path) -> None:
    with judged.client("alice") as alice:
        planted = plant(alice)
        paths = alice.get("/openapi.json").json()["paths"]
    judged.crew.kill_all()  # what is planted is in every state; to read a hundred lists more teaches nothing
    operations = {
        f"{method.upper()} {path}": one for path, found in paths.items() for method, one in found.items()
    }
    header = f"Authorization: Bearer {judged.keys['alice']}"
    report = await schemathesis(tmp_path, judged.url, _config(operations, planted), "-H", header, "-c", "all")
    assert report.exit_code == 0, report.text
    assert {phase: report.phases[phase] for phase in PHASES} == dict.fromkeys(PHASES, "success")
    assert not report.failed
    assert {name for name in CHECKS if report.passed[name] > 1_000} == CHECKS, report.passed
    assert len(report.sent) > CASES
    _check_reach(report, operations)
    rejected = {(one.operation, one.code) for one in report.sent if one.positive and one.status in UNFIT}
    assert rejected <= {(label, code) for label in operations for code in _beyond_schema(label)}


def _check_reach(report: Report, operations: Mapping[str, Any]) -> None:
    """Every operation succeeded, refused who had no key and what was not a body; links were followed."""
    assert len(operations) > 30
    seen = report.statuses()
    assert [label for label in operations if not any(200 <= one < 300 for one in seen[label])] == []
    assert [label for label in operations if " /v1/" in label and not seen[label][401]] == []
    with_body = [label for label, described in operations.items() if "requestBody" in described]
    assert len(with_body) > 8
    assert [label for label in with_body if not seen[label].keys() & UNFIT] == []
    paths = {label.partition(" ")[2] for label in operations}
    assert {label.partition(" ")[2] for label in seen if seen[label][405]} == paths
    assert len({one.link for one in report.sent if one.link}) > 10  # it goes its way by chance
