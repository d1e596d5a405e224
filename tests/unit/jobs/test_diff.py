"""What changed between two runs: moves counted, addresses named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mailsift.jobs.columns import names_metadata
from mailsift.jobs.results.breakdown import compare_runs
from mailsift.pipeline.errors import MailsiftError


def _results(path: Path, rows: list[tuple[str, str, str, int]]) -> Path:
    names = ("c0", "mailsift_status", "mailsift_result", "mailsift_score")
    frame = pl.DataFrame(rows, schema=list(names), orient="row")
    frame.write_parquet(path, metadata=names_metadata(["email"]))
    return path


def test_moves_and_addresses_of_only_one_run(tmp_path: Path) -> None:
    before = _results(
        tmp_path / "a",
        [
            ("A@x.com", "risky", "deferred", 45),
            ("b@x.com", "valid", "deliverable", 95),
            ("gone@x.com", "valid", "deliverable", 95),
        ],
    )
    after = _results(
        tmp_path / "b",
        [
            ("b@x.com", "valid", "deliverable", 90),
            (" a@x.com", "valid", "deliverable", 95),
            ("new@x.com", "risky", "deferred", 45),
        ],
    )
    found = compare_runs(before, after, ("email", "email"), limit=10)
    assert (found.compared, found.only_before, found.only_after) == (2, 1, 1)
    sides = {
        "before": {"status": "risky", "result": "deferred"},
        "after": {"status": "valid", "result": "deliverable"},
    }
    assert found.moves == [{**sides, "addresses": 1}]
    assert [one["email"] for one in found.changed] == ["a@x.com"]
    assert found.changed[0]["after"]["score"] == 95


def test_what_has_no_verdict_yet_is_looked_for_in_the_list(tmp_path: Path) -> None:
    verdict = ("valid", "deliverable", 95)
    before = _results(tmp_path / "a", [(f"{name}@x.com", *verdict) for name in "abcd"])
    so_far = _results(tmp_path / "b", [("e@x.com", *verdict)])
    whole = _results(tmp_path / "c", [(f"{name}@x.com", *verdict) for name in "EabcZ"])
    found = compare_runs(before, so_far, ("email", "email"), limit=10, lists=(None, whole))
    assert (found.compared, found.only_before, found.only_after) == (0, 1, 1)
    found = compare_runs(so_far, before, ("email", "email"), limit=10, lists=(whole, None))
    assert (found.compared, found.only_before, found.only_after) == (0, 1, 1)


def test_long_lists_are_compared_a_part_at_a_time_to_the_same_end(tmp_path: Path) -> None:
    known = [("valid", "deliverable", 95), ("risky", "deferred", 45), ("invalid", "mailbox_not_found", 0)]
    before = [(f"p{n % 70}@x.com", *known[n % 3]) for n in range(100)]
    after = [(f"p{n}@x.com", *known[n % 2]) for n in range(20, 90)]
    files = _results(tmp_path / "a", before), _results(tmp_path / "b", after)
    whole = compare_runs(*files, ("email", "email"), limit=10)
    assert (whole.compared, whole.only_before, whole.only_after, len(whole.changed)) == (50, 20, 20, 10)
    assert [one["email"] for one in whole.changed[:3]] == ["p20@x.com", "p21@x.com", "p22@x.com"]
    assert compare_runs(*files, ("email", "email"), limit=10, part_rows=7) == whole


def test_lists_without_an_address_in_common_are_not_compared(tmp_path: Path) -> None:
    blank = ("  ", "invalid", "syntax_error", 0)
    one = _results(tmp_path / "a", [("a@x.com", "risky", "deferred", 45), blank])
    two = _results(tmp_path / "b", [("b@x.com", "risky", "deferred", 45), blank])
    with pytest.raises(MailsiftError, match="not_the_same_list"):
        compare_runs(one, two, ("email", "email"), limit=10)
