"""What a chunk tells beside its verdicts: to the job a warning, to the pipeline whose list it is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import polars as pl
import pytest

from jobs.views import JobOptions
from jobs.work import ChunkWorker, WorkPlan, warning_of
from storage.chunk_rows import ClaimedChunk

JOB = UUID(int=7)


@pytest.mark.parametrize(
    ("results", "warning"),
    [
        (["deliverable", "probe_unavailable", "deliverable"], "probe_unavailable"),
        (["deliverable", "probe_blocked", "unreachable"], ""),
        ([], ""),
    ],
)
def test_verdicts_that_nobody_could_look_up_make_a_warning(results: list[str], warning: str) -> None:
    assert warning_of(pl.DataFrame({"result": results}, schema={"result": pl.String})) == warning


def test_the_pipeline_is_told_the_list_and_how_old_a_verdict_may_be() -> None:
    absent: dict[str, Any] = dict.fromkeys(("database", "blobs", "sifter"))  # nobody is asked
    worker = ChunkWorker(work_plan=WorkPlan(), **absent)
    chunk = ClaimedChunk(JOB, 0, "", 1, 10, "key", 0, UUID(int=1), UUID(int=2), {}, deadline_passed=False)
    request = worker._request(chunk, JobOptions(max_age=60.0))
    assert (request.list_id, request.max_age, request.final) == (str(JOB), 60.0, False)
