"""Frames of pandas and pyarrow come back as such, with their rows and columns; nobody is asked."""

from __future__ import annotations

import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

import mailsift

TEXTS = ["a@example.com", "nope", "a@example.com", None]
RESULTS = ["passed", "syntax_error", "passed", "syntax_error"]


def main() -> None:
    """Raise where something is not as it should be."""
    series = pd.Series(TEXTS, index=[9, 8, 7, 6])
    found = mailsift.check_many(series, mode="fast")
    assert (list(found.index), found["result"].tolist()) == ([9, 8, 7, 6], RESULTS)
    frame = pd.DataFrame({"n": range(4), "email": TEXTS}, index=list("abcd"))
    found = mailsift.check_many(frame, mode="fast")
    assert (list(found.columns)[:4], list(found.index)) == (
        ["n", "email", "address", "catch_all"],
        list("abcd"),
    )
    assert list(frame.columns) == ["n", "email"]
    empty = mailsift.check_many(frame.iloc[:0], column="email", mode="fast")
    assert empty.dtypes.to_dict() == found.dtypes.to_dict() | {"n": frame["n"].dtype}
    array = pa.array(TEXTS)
    assert mailsift.check_many(array, mode="fast").column("result").to_pylist() == RESULTS
    assert mailsift.check_many(pa.chunked_array([array, array]), mode="fast").num_rows == 8
    table = pa.table({"n": range(4), "email": TEXTS})
    found = mailsift.check_many(table, column="email", mode="fast")
    assert isinstance(found, pa.Table)
    assert found.column("result").to_pylist() == RESULTS
    kinds = {str(kind) for kind in found.schema.types}
    assert kinds == {"int64", "string", "bool", "int32"}  # without unsigned numbers, which Spark has not
    batch = mailsift.check_many(table.to_batches()[0], column="email", mode="fast")
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema == found.schema
    assert mailsift.check_many(table.slice(0, 0), column="email", mode="fast").schema == found.schema


if __name__ == "__main__":
    main()
