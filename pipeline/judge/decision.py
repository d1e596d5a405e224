"""Turns evidence into a verdict; pure, and the only place that decides what is valid, risky or invalid."""

from __future__ import annotations

from collections.abc import Iterator

from mailsift.pipeline.facts import DomainState, Known
from mailsift.pipeline.judge.table import ROWS, VerdictPolicy, VerdictRow, syntax_reason
from mailsift.pipeline.verdict import Evidence, Status, Verdict

BANDS = {Status.VALID: (60, 100), Status.RISKY: (20, 59), Status.INVALID: (0, 19)}
"""Lowest and highest score of each status."""

_ROLE = -5
_LIKELY_TYPO = -10
_LOOK_ALIKE = -10
_DEFAULT_POLICY = VerdictPolicy()


def judge(evidence: Evidence, policy: VerdictPolicy = _DEFAULT_POLICY) -> Verdict:
    """Return the verdict on one address; equal evidence and policy give an equal verdict."""
    row = decide(evidence, policy)
    return Verdict(
        catch_all=evidence.catch_all is Known.YES,
        is_disposable=evidence.disposable,
        is_free=evidence.free,
        is_role_based=evidence.role,
        is_valid=row.status is Status.VALID,
        mx_valid=evidence.domain is DomainState.ROUTED,
        syntax_valid=not evidence.syntax_rule,
        reason=syntax_reason(evidence.syntax_rule) if evidence.syntax_rule else row.reason,
        result=row.result,
        suggestion=_suggestion(evidence, row),
        score=sum(points for _, points in _score_parts(row, evidence)),
        smtp_code=evidence.smtp_code,
        status=row.status,
    )


def decide(evidence: Evidence, policy: VerdictPolicy) -> VerdictRow:
    """Return the row of ROWS that decides."""
    return next(row for row in ROWS if row.when(evidence, policy))


def score_parts(evidence: Evidence, policy: VerdictPolicy = _DEFAULT_POLICY) -> tuple[tuple[str, int], ...]:
    """Return the named points whose sum is the score; the last one, if any, keeps the score in its band."""
    return _score_parts(decide(evidence, policy), evidence)


def _score_parts(row: VerdictRow, evidence: Evidence) -> tuple[tuple[str, int], ...]:
    parts = ((row.id, row.score), *_adjustments(evidence))
    total = sum(points for _, points in parts)
    floor, ceiling = BANDS[row.status]
    kept = min(max(total, floor), ceiling) - total
    return (*parts, ("band", kept)) if kept else parts


def _adjustments(evidence: Evidence) -> Iterator[tuple[str, int]]:
    if evidence.role:
        yield "role", _ROLE
    if evidence.look_alike:
        yield "look_alike", _LOOK_ALIKE
    elif evidence.suggested_domain:
        yield "likely_slip", _LIKELY_TYPO


def _suggestion(evidence: Evidence, row: VerdictRow) -> str:
    if evidence.suggested_domain:
        return f"Did you mean the domain {evidence.suggested_domain}?"
    return row.suggestion
