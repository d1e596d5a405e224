"""From evidence to verdicts for a whole frame: judge once per distinct evidence and join back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any, Final

import polars as pl

from mailsift.pipeline.facts import Answer, CatchAllFact, DomainFact, DomainState, Known, MailboxFact, Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.verdict import DID_YOU_MEAN, Evidence, VerdictPolicy, judge, score_parts


@dataclass(frozen=True, slots=True)
class Findings:
    """What the stages learned, by domain and by address, and the operator's policy.

    The frame holds what judge needs of the facts.
    """

    mode: Mode
    domains: Mapping[str, DomainFact]
    mailboxes: Mapping[str, MailboxFact]
    catch_alls: Mapping[str, CatchAllFact]
    policy: VerdictPolicy = field(default_factory=VerdictPolicy)


_COLUMN_NAMES: Final = {"syntax_rule": "rule", "domain": "domain_state"}
"""What the members of Evidence are called in a frame, where that differs."""
_ENUMS: Final = {"domain": DomainState, "catch_all": Known, "answer": Answer}
_MEMBERS: Final = tuple(member.name for member in fields(Evidence) if member.name != "mode")
_EVIDENCE_COLUMNS: Final = tuple(_COLUMN_NAMES.get(name, name) for name in _MEMBERS)
_READERS: Final = tuple(_ENUMS.get(name) for name in _MEMBERS)
"""What makes members of these columns, None where they are taken as they are."""

_SHOWN_AS_THEY_ARE: Final = (
    *("syntax_rule", "role", "free", "disposable", "suggested_domain", "unknown_suffix", "look_alike"),
    "unwanted",
)
"""The members of Evidence that stand in the JSON; the facts behind the others stand there themselves."""


def judge_frame(frame: pl.DataFrame, findings: Findings, *, evidence: bool) -> pl.DataFrame:
    """Judge every row.

    Args:
        frame: `n`, `rows`, `address`, `local`, `domain`, `meant` and the columns of the evidence.
        findings: the facts behind them.
        evidence: also write the facts as JSON.

    Returns:
        `n`, `rows`, the 13 fields, `evidence`, `provider` and `unwanted`, in the frame's order.
    """
    distinct = frame.select(_EVIDENCE_COLUMNS).unique()
    verdicts = pl.DataFrame(
        [astuple(judge(_evidence(findings.mode, row), findings.policy)) for row in distinct.iter_rows()],
        schema={f"v_{name}": dtype for name, dtype in VERDICTS.items()},
        orient="row",
    )
    judged = frame.join(
        pl.concat([distinct, verdicts], how="horizontal"),
        on=_EVIDENCE_COLUMNS,
        how="left",
        maintain_order="left",
    )
    facts = _facts_as_json(judged, findings) if evidence else pl.lit("")
    return judged.select(
        "n",
        "rows",
        *(_suggestion() if name == "suggestion" else pl.col(f"v_{name}").alias(name) for name in VERDICTS),
        facts.alias("evidence"),
        _provider(findings),
        "unwanted",
    )


def _evidence(mode: Mode, row: Iterable[Any]) -> Evidence:
    """Return the evidence in a row of _EVIDENCE_COLUMNS."""
    members: list[Any] = [read(cell) if read else cell for read, cell in zip(_READERS, row, strict=True)]
    return Evidence(mode, *members)


def _suggestion() -> pl.Expr:
    """Name the whole address, not only its domain."""
    return (
        pl.when(pl.col("meant") != "")
        .then(pl.format(DID_YOU_MEAN, "meant"))
        .when((pl.col("suggested_domain") != "") & (pl.col("local") != ""))
        .then(pl.format(DID_YOU_MEAN.format("{}@{}"), "local", "suggested_domain"))
        .otherwise("v_suggestion")
        .alias("suggestion")
    )


def _provider(findings: Findings) -> pl.Expr:
    providers = {domain: fact.provider for domain, fact in findings.domains.items() if fact.provider}
    return pl.col("domain").replace_strict(providers, default="", return_dtype=pl.String).alias("provider")


def _facts_as_json(judged: pl.DataFrame, findings: Findings) -> pl.Series:
    """Return one JSON object a row: the facts, and the parts that make the score."""
    rows = judged.select("address", "domain", *_EVIDENCE_COLUMNS).iter_rows()
    return pl.Series(
        "evidence",
        [_row_facts_json(address, domain, row, findings) for address, domain, *row in rows],
        pl.String,
    )


def _row_facts_json(address: str, domain: str, row: Iterable[Any], findings: Findings) -> str:
    evidence = _evidence(findings.mode, row)
    facts = {
        "mode": findings.mode.value,
        **{name: getattr(evidence, name) for name in _SHOWN_AS_THEY_ARE},
        "domain": _as_dict(findings.domains.get(domain)),
        "catch_all": _as_dict(findings.catch_alls.get(domain)),
        "mailbox": _as_dict(findings.mailboxes.get(address)),
        "score_parts": dict(score_parts(evidence, findings.policy)),
    }
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def _as_dict(fact: DomainFact | CatchAllFact | MailboxFact | None) -> dict[str, Any] | None:
    return None if fact is None else asdict(fact)
