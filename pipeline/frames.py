"""The frames that flow between the stages and folders, as schemas: one name and type for every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Thread
from typing import Literal

import polars as pl
from typing_extensions import override

_Kind = Literal["String", "Boolean", "UInt8", "UInt16", "UInt32", "Float64"]


class Schema(Mapping[str, "type[pl.DataType]"]):
    """Names and types of columns; who only wants the names does not load polars (mailsift.lazy_import)."""

    def __init__(self, kinds: Mapping[str, _Kind]) -> None:
        self._kinds = kinds

    @override
    def __getitem__(self, name: str) -> type[pl.DataType]:
        kind: type[pl.DataType] = getattr(pl, self._kinds[name])
        return kind

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    @override
    def __len__(self) -> int:
        return len(self._kinds)

    def __or__(self, more: Schema) -> Schema:
        """Return these columns and more behind them."""
        return Schema({**self._kinds, **more._kinds})


def load_frames() -> None:
    """Begin to load what computes with frames, while something else is waited for.

    By its name, as everybody does: a part of it that one thread loads while another loads the whole leaves
    the process with half of both, and every frame fails from then on.
    """
    Thread(target=getattr, args=(pl, "DataFrame"), daemon=True).start()


PARSED = Schema(
    {
        "address": "String",  # canonical; for bad syntax the trimmed input
        "local": "String",  # canonical local part, "" for bad syntax
        "domain": "String",  # ASCII lower-case domain, "" for bad syntax
        "rule": "String",  # code of the broken syntax rule, "" when the syntax is good
    }
)
"""What mailsift.pipeline.syntax.column.parse_column makes of cells, one row each, in their order."""

_NUMBERS = Schema(
    {
        "n": "UInt32",  # address number, dense from 0 in the job
        "rows": "UInt32",  # how many rows of the list carry this address
    }
)
ADDRESSES = _NUMBERS | PARSED
"""A job's distinct addresses, those of a domain in a row; a chunk is a slice of it."""

WAITING = ADDRESSES | Schema(
    {
        "tries": "UInt8",  # how often a mail server has been asked for this address and said "later"
        "known_by": "String",  # identity of the source that a greylisting server knows us by, "" for none
    }
)
"""What a deferred chunk carries: addresses that are not finished."""

VERDICTS = Schema(
    {
        "catch_all": "Boolean",
        "is_disposable": "Boolean",
        "is_free": "Boolean",
        "is_role_based": "Boolean",
        "is_valid": "Boolean",
        "mx_valid": "Boolean",
        "syntax_valid": "Boolean",
        "reason": "String",
        "result": "String",
        "suggestion": "String",
        "score": "UInt8",
        "smtp_code": "UInt16",
        "status": "String",
    }
)
"""The 13 fields of the contract, in its order; never null."""

BESIDE = Schema({"evidence": "String", "provider": "String", "unwanted": "String"})
"""What stands beside a verdict; a segment in which one is "" throughout leaves it out."""
SEGMENT = Schema({"n": "UInt32"}) | VERDICTS | BESIDE
"""What a finished chunk writes; evidence is a JSON object, or "" when the job did not ask for it; provider is
who runs the mail server, "" where DNS was not asked or named none; unwanted says why the account may not send
there (mailsift.pipeline.tiers.Unwanted), or ""."""
