"""What a verdict is called behind a door: one table each, which can be read both ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.pipeline.verdict import Result

Code = tuple[str, ...]
"""The words of a vendor for one outcome: its status, and what it says beside it."""


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A vendor's words for our results.

    Attributes:
        usual: for every result.
        role: for those that are called something else at an address of a role.
    """

    usual: Mapping[Result, Code]
    role: Mapping[Result, Code] = field(default_factory=dict)

    def of(self, verdict: Mapping[str, Any]) -> Code:
        """Return what a verdict, with at least `result` and `is_role_based`, is called."""
        return self.named(Result(verdict["result"]), role=verdict["is_role_based"])

    def named(self, result: Result, *, role: bool) -> Code:
        """Return what a result is called."""
        return self.role.get(result, self.usual[result]) if role else self.usual[result]

    def results_of(self, code: Code) -> frozenset[Result]:
        """Return every result that may be called so; empty when this door never says it."""
        return frozenset(
            result for rows in (self.usual, self.role) for result, one in rows.items() if one == code
        )

    @property
    def codes(self) -> frozenset[Code]:
        """All words of this door."""
        return frozenset((*self.usual.values(), *self.role.values()))

    def column(self, place: int) -> pl.Expr:
        """Return one of the words for every row of a file of results."""
        result = pl.col(f"{VERDICT_PREFIX}result").cast(pl.String)
        usual = {one.value: code[place] for one, code in self.usual.items()}
        role = usual | {one.value: code[place] for one, code in self.role.items()}
        return (
            pl.when(pl.col(f"{VERDICT_PREFIX}is_role_based"))
            .then(result.replace_strict(role, return_dtype=pl.String))
            .otherwise(result.replace_strict(usual, return_dtype=pl.String))
        )


def split_address(text: str) -> tuple[str, str]:
    """Return what stands before and behind the last at sign; the domain is "" where there is none."""
    user, _, domain = text.rpartition("@")
    return (user, domain) if "@" in text else (text, "")
