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
    without_polars_types(table)
    bytes_and_odd_names()


def bytes_and_odd_names() -> None:
    """Check texts that were written as bytes, and columns that are called by numbers or by tuples."""
    written = [None if one is None else one.encode() for one in TEXTS]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())):
        array = pa.array(written, pa.binary()).cast(kind)
        found = mailsift.check_many(pa.table({"email": array}), mode="fast")
        assert found.column("result").to_pylist() == RESULTS
        assert found.column("email").type == kind
    assert mailsift.check_many(pd.Series(written), mode="fast")["result"].tolist() == RESULTS
    for names in ([0, 1], pd.MultiIndex.from_tuples([("a", "n"), ("a", "email")])):
        frame = pd.DataFrame(list(enumerate(TEXTS)), columns=names)
        found = mailsift.check_many(frame, column=frame.columns[1], mode="fast")
        assert found.iloc[:, -14:]["result"].squeeze().tolist() == RESULTS


def without_polars_types(table: pa.Table) -> None:
    """Check tables with columns that polars cannot read, more rows than fit in a piece, and notes."""
    timestamps = pa.array([0] * 4, pa.timestamp("us", "+05:30"))
    views, runs = pa.array([[1]] * 4, pa.list_view(pa.int8())), pa.array([4], pa.int32())
    odd = [
        timestamps,
        views,
        pa.array([1] * 4, pa.decimal256(50, 2)),
        pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
    ]
    odd.append(pa.RunEndEncodedArray.from_arrays(runs, pa.array(["x"])))
    for values in odd:
        wide = table.append_column("odd", values)
        found = mailsift.check_many(wide, mode="fast")
        assert found.column("result").to_pylist() == RESULTS
        assert found.column("odd").equals(wide.column("odd"))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(TEXTS[:2]))
    assert mailsift.check_many(runs, mode="fast").column("result").to_pylist() == [
        "passed",
        "passed",
        "syntax_error",
    ]
    noted = pa.field("email", pa.string(), nullable=False, metadata={"of": "us"})
    batch = pa.RecordBatch.from_arrays(
        [pa.array(TEXTS[:1] * 1_000_001)], schema=pa.schema([noted], {"a": "b"})
    )
    found = mailsift.check_many(batch, mode="fast")
    assert (type(found), found.num_rows) == (pa.RecordBatch, 1_000_001)
    assert found.schema.field(0).equals(noted, check_metadata=True)
    assert found.schema.metadata == {b"a": b"b"}


if __name__ == "__main__":
    main()
