"""The frames that flow between the rooms, as schemas: one name and type for every column."""

from __future__ import annotations

import polars as pl

PARSED = {
    "address": pl.String,  # canonical; for bad syntax the trimmed input
    "local": pl.String,  # canonical local part, "" for bad syntax
    "domain": pl.String,  # ASCII lower-case domain, "" for bad syntax
    "rule": pl.String,  # code of the broken syntax rule, "" when the syntax is good
}
"""What pipeline.syntax.parse makes of raw input, one row each, in the input's order."""

ADDRESSES = {
    "n": pl.UInt32,  # address number, dense from 0 in the job
    "rows": pl.UInt32,  # how many rows of the list carry this address
    **PARSED,
}
"""A job's distinct addresses, sorted by domain; a chunk is a slice of it."""

WAITING = {
    **ADDRESSES,
    "tries": pl.UInt8,  # how often a mail server has been asked for this address and said "later"
}
"""What a residual chunk carries: addresses that are not finished."""

VERDICTS = {
    "catch_all": pl.Boolean,
    "is_disposable": pl.Boolean,
    "is_free": pl.Boolean,
    "is_role_based": pl.Boolean,
    "is_valid": pl.Boolean,
    "mx_valid": pl.Boolean,
    "syntax_valid": pl.Boolean,
    "reason": pl.String,
    "result": pl.String,
    "suggestion": pl.String,
    "score": pl.UInt8,
    "smtp_code": pl.UInt16,
    "status": pl.String,
}
"""The 13 fields of the contract, in its order; never null."""

SEGMENT = {"n": pl.UInt32, **VERDICTS, "evidence": pl.String}
"""What a finished chunk writes; evidence is a JSON object, or "" when the job did not ask for it."""
