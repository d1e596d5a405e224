"""The domains of a list that is being read reach whoever looks them up, each once, until it has been read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mailsift.jobs.intake.ahead import DomainsAhead, look_ahead
from mailsift.pipeline.syntax.column import parse_column


def parsed(*cells: str) -> pl.DataFrame:
    return parse_column(pl.Series("cell", cells, pl.String))


async def test_each_new_domain_is_looked_up_once_and_the_end_of_the_folder_ends_it(tmp_path: Path) -> None:
    folder = tmp_path / "intake"
    folder.mkdir()
    asked: list[list[str]] = []
    both = asyncio.Event()

    async def look_up(domains: Sequence[str]) -> None:
        asked.append(list(domains))
        if len(asked) == 2:
            both.set()

    looking = asyncio.create_task(look_ahead(folder, look_up))
    ahead = DomainsAhead(folder)
    ahead.add(
        parsed("ann@one.example", "bob@Two.example", "cy@one.example", "no address", "", "@three.example")
    )
    ahead.add(parsed("dan@two.example", "x@münchen.example", "eve@four.example"))
    await asyncio.wait_for(both.wait(), 10)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    await asyncio.wait_for(looking, 10)
    assert asked == [["one.example", "two.example"], ["xn--mnchen-3ya.example", "four.example"]]


def test_a_batch_without_a_new_domain_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    ahead = DomainsAhead(tmp_path)
    for cell in ("no address", "ann@one.example", "bob@one.example"):
        ahead.add(parsed(cell))
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files == {"domains-0": "", "domains-1": "one.example", "domains-2": ""}
