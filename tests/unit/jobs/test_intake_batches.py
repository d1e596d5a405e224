"""A list that is read in batches comes to the same as one that is read at once."""

from __future__ import annotations

import random
from itertools import pairwise, takewhile
from pathlib import Path

import polars as pl
import pytest

from mailsift.jobs.columns import ADDRESS, ADDRESS_N
from mailsift.jobs.intake import numbering
from mailsift.jobs.intake.models import BatchSizes, Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read import read_list
from mailsift.pipeline.errors import MailsiftError

_LARGE = "large.example"


def _cells(seed: int) -> list[str]:
    """Make a list with repeats in and across batches, a domain that is most of it, mistakes and blanks."""
    rng = random.Random(seed)
    domains = [_LARGE] * 12 + [f"d{n}.example" for n in range(9)]
    cells = [f"u{rng.randrange(80)}@{rng.choice(domains)}" for _ in range(300)]
    crowd = [f"u{n % 3}@d1.example" for n in range(120)]
    return [*cells, "no address", "", "U1@Large.example", "<u2@d1.example>", "no address", *crowd]


def _take_in(
    folder: Path, cells: list[str], *, rows: int = 10_000, together: int | None = None, kept: int = 0
) -> tuple[Intake, pl.DataFrame, pl.DataFrame]:
    folder.mkdir()
    source = folder / "list.csv"
    source.write_text("n,email\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells)))
    options = IntakeOptions(chunk_addresses=37)
    batches = BatchSizes(rows=50, addresses=together, kept=kept) if together else BatchSizes()
    taken = read_list(source, folder, options=options, limits=IntakeLimits(rows=rows, batches=batches))
    source.unlink()
    assert {path.name for path in folder.iterdir()} == {"rows.parquet", "addresses.parquet"}
    return taken, pl.read_parquet(folder / "rows.parquet"), pl.read_parquet(folder / "addresses.parquet")


@pytest.mark.parametrize(
    ("together", "kept"), [(100_000, 0), (100_000, 10_000), (40, 250), (7, 0), (7, 10_000)]
)
def test_batches_come_to_the_same_as_the_whole(tmp_path: Path, together: int, kept: int) -> None:
    cells = _cells(together)
    whole, rows, addresses = _take_in(tmp_path / "whole", cells)
    taken, batched, parted = _take_in(tmp_path / "batched", cells, together=together, kept=kept)

    assert batched.drop(ADDRESS_N).equals(rows.drop(ADDRESS_N))
    same = ["address", "local", "domain", "rule", "rows"]
    assert parted.select(same).sort("address").equals(addresses.select(same).sort("address"))
    assert parted["n"].to_list() == list(range(parted.height))
    judged = batched.join(parted, left_on=ADDRESS_N, right_on="n", maintain_order="left", suffix="_judged")
    good = judged.filter(pl.col("rule") == "")
    assert (good[ADDRESS] == good["address_judged"]).all()
    # the numbers of a domain's addresses follow one another (results.breakdown), however large it is
    assert parted["domain"].rle().len() == parted["domain"].n_unique()

    assert (taken.rows, taken.addresses, taken.duplicates) == (whole.rows, whole.addresses, whole.duplicates)
    assert [(chunk.offset, chunk.addresses) for chunk in taken.chunks] == [
        (chunk.offset, chunk.addresses) for chunk in whole.chunks
    ]
    assert parted["rows"].sum() == taken.rows


def test_addresses_of_a_domain_keep_the_order_of_the_list(tmp_path: Path) -> None:
    cells = _cells(1)
    _, _, addresses = _take_in(tmp_path / "list", cells, together=100_000)
    firsts = list(dict.fromkeys(cell for cell in cells if cell.endswith(f"@{_LARGE}")))
    assert addresses.filter(pl.col("domain") == _LARGE)["address"].to_list() == firsts


@pytest.mark.parametrize(
    "cells", [_cells(1), sorted(set(_cells(2))), ["b@z.example", "x", "a@z.example", "a@y.example"]]
)
def test_few_addresses_are_numbered_as_many_are(cells: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for few in (0, 10_000):
        monkeypatch.setattr(numbering, "_FEW", few)
        found.append(numbering.number_addresses(pl.Series("raw", cells)))
    (numbers, addresses), (same_numbers, same_addresses) = found
    assert numbers.equals(same_numbers)
    assert addresses.equals(same_addresses)


def test_too_many_rows_are_refused_in_whichever_batch(tmp_path: Path) -> None:
    with pytest.raises(MailsiftError, match="more than 233 rows"):
        _take_in(tmp_path / "list", _cells(1)[:234], rows=233, together=100)


@pytest.mark.parametrize("addresses", [1, 30, 60, 999, 5_000])
def test_samples_from_all_over_the_list_come_first_and_nothing_twice(tmp_path: Path, addresses: int) -> None:
    source = tmp_path / "list.csv"
    source.write_text("email\n" + "\n".join(f"u{n}@d{n // 7}.example" for n in range(addresses)))
    options = IntakeOptions(chunk_addresses=40, forecast=True)
    chunks = read_list(source, tmp_path, options=options, limits=IntakeLimits()).chunks
    taken = [n for chunk in chunks for n in range(chunk.offset, chunk.offset + chunk.addresses)]
    assert sorted(taken) == list(range(addresses))
    assert max(chunk.addresses for chunk in chunks) <= 40
    samples = list(takewhile(lambda chunk: chunk.offset % 40 == 0 and chunk.addresses < 40, chunks))
    assert sum(chunk.addresses for chunk in samples) <= 2 * 40
    gaps = [later - earlier for earlier, later in pairwise([*(one.offset for one in samples), addresses])]
    assert max(gaps) <= max(40, addresses // 10)


def test_the_free_mail_of_each_chunk_is_counted_for_the_forecast(tmp_path: Path) -> None:
    cells = [f"u{n}@{domain}" for domain in ("gmail.com", "googlemail.com", "a.example") for n in range(20)]
    source = tmp_path / "list.csv"
    source.write_text("email\n" + "\n".join(cells))
    counted = IntakeOptions(chunk_addresses=40, forecast=True)
    taken = read_list(source, tmp_path, options=counted, limits=IntakeLimits())
    assert [(chunk.offset, dict(chunk.free_mail)) for chunk in taken.chunks] == [
        (0, {}),
        (40, {"google": 20}),
        (20, {"google": 20}),
    ]
    taken = read_list(source, tmp_path, options=IntakeOptions(chunk_addresses=40), limits=IntakeLimits())
    assert [(chunk.offset, dict(chunk.free_mail)) for chunk in taken.chunks] == [(0, {}), (40, {})]


@pytest.mark.parametrize(("addresses", "sizes"), [(9_000, [5_000, 4_000]), (120_000, [6_000] * 20)])
def test_a_list_is_cut_into_so_many_parts_unless_they_were_small(
    tmp_path: Path, addresses: int, sizes: list[int]
) -> None:
    source = tmp_path / "list.csv"
    source.write_text("email\n" + "\n".join(f"u{n}@a.example" for n in range(addresses)))
    options = IntakeOptions(chunk_addresses=20_000, parts=20)
    chunks = read_list(source, tmp_path, options=options, limits=IntakeLimits()).chunks
    assert [chunk.addresses for chunk in chunks] == sizes
