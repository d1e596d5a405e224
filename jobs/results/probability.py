"""The chance that a message arrives, beside every row of results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.columns import JUDGED_ADDRESS, VERDICT_PREFIX, kept_metadata
from mailsift.pipeline.outcomes.chances import Cell, Chances

COLUMNS: Final = tuple(f"{VERDICT_PREFIX}{name}" for name in ("p", "p_low", "p_high"))
"""The chance, 0 to 1, and its 95 % interval; empty where too few outcomes are known."""
_VERDICT_KEY: Final = ("status", "result", "score")


def add_chances(results: Path, providers: Mapping[str, str], chances: Chances, out: Path) -> None:
    """Write results again, with COLUMNS behind the others. Blocks; the rows stream through.

    Args:
        results: a results file (mailsift.jobs.results.join).
        providers: who runs a domain's mail server.
        chances: the account's.
        out: the file to write.
    """
    frame = pl.scan_parquet(results, glob=False)
    schema = frame.collect_schema()
    has_address = JUDGED_ADDRESS in schema

    def attach(rows: pl.DataFrame) -> pl.DataFrame:
        domain = rows[JUDGED_ADDRESS].str.split("@").list.last() if has_address else pl.Series([""])
        provider = domain.replace_strict(providers, default="", return_dtype=pl.String).alias("provider")
        seen = rows.select(pl.col(VERDICT_PREFIX + name).alias(name) for name in _VERDICT_KEY)
        cells = seen.with_columns(provider)
        kinds = cells.unique()
        found = [
            chances.of(Cell(one["status"], one["result"], one["provider"], one["score"]))
            for one in kinds.iter_rows(named=True)
        ]
        values = [(one.value, one.low, one.high) if one else (None, None, None) for one in found]
        columns = pl.DataFrame(values, schema=dict.fromkeys(COLUMNS, pl.Float64), orient="row")
        known = pl.concat([kinds, columns], how="horizontal")
        joined = cells.join(known, on=kinds.columns, how="left", maintain_order="left")
        return rows.with_columns(joined[name] for name in COLUMNS)

    for name in COLUMNS:
        schema[name] = pl.Float64()
    frame.map_batches(attach, schema=schema, streamable=True).sink_parquet(
        out,
        compression_level=1,
        statistics=False,
        metadata=kept_metadata(results),
        engine="streaming",
    )
