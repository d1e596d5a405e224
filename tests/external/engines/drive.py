"""Checks a list inside a data engine with two workers, as docs/data-engines.md says: ENGINE MODE LIST OUT.

Runs in the environment of `.ci/install-data-engines`; facts go through MAILSIFT_REDIS_URL.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

import mailsift

PARTS = 8


def with_dask(listed: Any, mode: str) -> Any:
    """Check the partitions of a Dask frame."""
    import dask.dataframe as dd  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - one of two
    from dask.distributed import Client, LocalCluster  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    frame = dd.from_pandas(listed, npartitions=PARTS)
    shape = mailsift.check_many(listed.head(0), column="email", mode="fast")  # no row, so nobody is asked
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        checked = frame.map_partitions(mailsift.check_many, column="email", mode=mode, meta=shape)
        return checked.compute()


def with_ray(listed: Any, mode: str) -> Any:
    """Check the batches of a Ray data set."""
    import ray  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - one of two

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    data = ray.data.from_arrow(pa.Table.from_pandas(listed)).repartition(PARTS)
    options = {"column": "email", "mode": mode}
    checked = data.map_batches(
        mailsift.check_many, batch_format="pyarrow", batch_size=None, fn_kwargs=options
    )
    found = checked.to_pandas()
    ray.shutdown()
    return found


ENGINES = {"dask": with_dask, "ray": with_ray}


def main() -> None:
    """Write what the engine gives as a CSV file."""
    engine, mode, listed, out = sys.argv[1:]
    texts = pd.read_csv(listed, dtype=str, keep_default_na=False, usecols=["email"])
    ENGINES[engine](texts, mode).to_csv(out, index=False)


if __name__ == "__main__":
    main()
