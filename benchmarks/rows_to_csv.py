"""What one would write: FastAPI streams the rows of a table, read by SQLAlchemy, through csv.writer."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import AsyncIterator

import uvloop
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import MetaData, Table, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.echo import serve

TABLE = "benchmark_results"
_BATCH = 10_000

app = FastAPI()


@app.get("/results")
async def results(request: Request) -> StreamingResponse:
    """Send the table as CSV."""
    return StreamingResponse(_lines(request.app.state.engine), media_type="text/csv")


async def _lines(engine: AsyncEngine) -> AsyncIterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    async with engine.connect() as connection:
        table = await connection.run_sync(lambda sync: Table(TABLE, MetaData(), autoload_with=sync))
        writer.writerow(table.columns.keys())
        rows = await connection.stream(select(table).execution_options(yield_per=_BATCH))
        async for batch in rows.partitions():
            writer.writerows(batch)
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


if __name__ == "__main__":
    app.state.engine = create_async_engine(os.environ["MAILSIFT_DATABASE_URL"])  # noqa: TID251 - not ours
    uvloop.run(serve(app))
