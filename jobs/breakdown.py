"""What the verdicts of a job amount to: its reasons, and its domains and mail providers with their mix."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from pipeline.verdict import Status


@dataclass(frozen=True, slots=True)
class Mix:
    """Rows of one domain or provider, all and by status."""

    name: str
    rows: int
    valid: int
    invalid: int
    risky: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Rows with one result code; a code may come with two statuses where the operator's policy changed."""

    result: str
    status: Status
    rows: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What a job came to so far.

    Attributes:
        rows: rows of the list that have a verdict.
        reasons: all result codes, most rows first.
        domains, providers: those with the most rows, most first.
        domain_count, provider_count: how many there are in all.
    """

    rows: int
    reasons: tuple[Reason, ...]
    domains: tuple[Mix, ...]
    providers: tuple[Mix, ...]
    domain_count: int
    provider_count: int

    def to_json(self) -> bytes:
        """Write it down for `read`."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def read(cls, stored: bytes) -> Breakdown:
        """Return what `to_json` has written."""
        told = json.loads(stored)
        known = {field.name: told[field.name] for field in fields(cls)}
        reasons = tuple(Reason(one["result"], Status(one["status"]), one["rows"]) for one in told["reasons"])
        mixes = {name: tuple(Mix(**one) for one in told[name]) for name in ("domains", "providers")}
        return cls(**{**known, **mixes, "reasons": reasons})
