"""What a job's verdicts amount to, by reason, domain and provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mailsift.jobs.columns import ADDRESS_N
from mailsift.jobs.results.breakdown import (
    DOMAINS,
    Breakdown,
    GroupCounts,
    ResultCounts,
    count_up,
    rows_by_result,
)
from mailsift.jobs.results.files import PartialVerdicts
from mailsift.pipeline.frames import ADDRESSES, SEGMENT, VERDICTS
from mailsift.pipeline.verdict import Status

# address number -> domain, rows, and what it came to
LIST = [
    ("", 2, "invalid", "syntax_error", ""),
    ("a.test", 3, "valid", "deliverable", "google"),
    ("a.test", 1, "invalid", "mailbox_not_found", "google"),
    ("b.test", 5, "risky", "catch_all", "mx.test"),
    ("c.test", 1, "valid", "deliverable", "google"),
    ("c.test", 7, "", "", ""),  # no verdict yet
]


def addresses_file(folder: Path) -> Path:
    frame = pl.DataFrame(
        {"n": range(len(LIST)), "rows": [row[1] for row in LIST], "domain": [row[0] for row in LIST]}
    )
    blanks = [pl.lit("", pl.String).alias(name) for name in ADDRESSES if name not in frame.columns]
    path = folder / "addresses[1].parquet"
    frame.with_columns(blanks).select(
        pl.col(name).cast(kind) for name, kind in ADDRESSES.items()
    ).write_parquet(path)
    return path


def segment(folder: Path, *numbers: int, without: str = "") -> Path:
    rows: list[dict[str, Any]] = [
        {"n": n, "status": LIST[n][2], "result": LIST[n][3], "provider": LIST[n][4]} for n in numbers
    ]
    path = folder / f"segment-{'-'.join(map(str, numbers))}.parquet"
    pl.DataFrame(rows, schema=SEGMENT).drop(without or []).write_parquet(path)
    return path


def known(folder: Path) -> PartialVerdicts:
    so_far = PartialVerdicts(len(LIST))
    so_far.add_segments([segment(folder, 4, 1), segment(folder, 0, 3)])
    so_far.add_segments([segment(folder, 2)])
    return so_far


@pytest.mark.parametrize("window", [1, 2, 4, 100])
def test_rows_are_counted_by_reason_domain_and_provider(tmp_path: Path, window: int) -> None:
    # A domain may be cut in two anywhere.
    breakdown, domains = count_up(addresses_file(tmp_path), known(tmp_path), window=window)
    assert breakdown == Breakdown(
        rows=12,
        reasons=(
            ResultCounts("catch_all", Status.RISKY, 5),
            ResultCounts("deliverable", Status.VALID, 4),
            ResultCounts("syntax_error", Status.INVALID, 2),
            ResultCounts("mailbox_not_found", Status.INVALID, 1),
        ),
        domains=(
            GroupCounts("b.test", 5, 0, 0, 5),
            GroupCounts("a.test", 4, 3, 1, 0),
            GroupCounts("c.test", 1, 1, 0, 0),
        ),
        providers=(GroupCounts("google", 5, 4, 1, 0), GroupCounts("mx.test", 5, 0, 0, 5)),
        domain_count=3,
        provider_count=2,
    )
    assert Breakdown.read(breakdown.to_json()) == breakdown
    assert dict(domains.schema) == DOMAINS
    assert domains.rows() == [
        ("", "", 1, 2, 0, 2, 0),
        ("a.test", "google", 2, 4, 3, 1, 0),
        ("b.test", "mx.test", 1, 5, 0, 0, 5),
        ("c.test", "google", 2, 1, 1, 0, 0),
    ]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_domain_has_the_provider_of_those_whose_provider_is_known(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    so_far = PartialVerdicts(len(LIST))
    for n in order:  # the second is of a release, or of a look, that knew none
        so_far.add_segments([segment(tmp_path, n, without="provider" if n == 2 else "")])
    _, domains = count_up(addresses_file(tmp_path), so_far)
    assert domains["provider"].to_list() == ["", "google", "", ""]


def test_segments_of_a_release_without_providers_are_read(tmp_path: Path) -> None:
    so_far = PartialVerdicts(len(LIST))
    so_far.add_segments([segment(tmp_path, 1, without="provider"), segment(tmp_path, 3)])
    breakdown, _ = count_up(addresses_file(tmp_path), so_far)
    assert (breakdown.rows, [mix.name for mix in breakdown.providers]) == (8, ["mx.test"])


def test_results_alone_say_all_but_the_providers(tmp_path: Path) -> None:
    numbers = [1, 0, 1, 3, 4, 2]
    rows, results = tmp_path / "rows.parquet", tmp_path / "results.parquet"
    pl.DataFrame({ADDRESS_N: pl.Series(numbers, dtype=pl.UInt32)}).write_parquet(rows)
    blank = {
        f"mailsift_{name}": pl.Series([None] * len(numbers), dtype=kind) for name, kind in VERDICTS.items()
    }
    columns = {
        "mailsift_status": [LIST[n][2] for n in numbers],
        "mailsift_result": [LIST[n][3] for n in numbers],
    }
    pl.DataFrame({**blank, **columns}).write_parquet(results)
    breakdown, _ = count_up(addresses_file(tmp_path), PartialVerdicts.of_results(len(LIST), rows, results))
    assert (breakdown.rows, breakdown.domain_count, breakdown.providers) == (12, 3, ())


def test_a_job_without_verdicts_has_an_empty_breakdown(tmp_path: Path) -> None:
    breakdown, domains = count_up(addresses_file(tmp_path), PartialVerdicts(len(LIST)))
    assert breakdown == Breakdown(0, (), (), (), 0, 0)
    assert domains["addresses"].to_list() == [1, 2, 1, 2]


def test_of_many_domains_only_the_biggest_are_named(tmp_path: Path) -> None:
    breakdown, _ = count_up(addresses_file(tmp_path), known(tmp_path), top=1)
    assert ([mix.name for mix in breakdown.domains], breakdown.domain_count) == (["b.test"], 3)


@pytest.mark.parametrize("results", [[], ["passed"], ["passed", "catch_all", "passed"]])
def test_rows_are_counted_by_result(results: list[str], tmp_path: Path) -> None:
    path = tmp_path / "results[0-9].parquet"
    pl.DataFrame({"mailsift_result": results}, schema={"mailsift_result": pl.String}).write_parquet(path)
    assert rows_by_result(path) == {result: results.count(result) for result in results}
