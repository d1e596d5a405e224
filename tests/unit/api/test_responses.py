"""What answers tell of views: every field of the pipeline's verdict, and times to the millisecond."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone

from mailsift.api.http.responses import UtcTime, ViewModel, answer
from mailsift.api.v1.email import FullVerdict, MinimalVerdict
from mailsift.pipeline.verdict import Verdict


@dataclass(frozen=True, slots=True)
class _View:
    at: datetime
    until: datetime | None
    secret: str


class _Response(ViewModel):
    at: UtcTime
    until: UtcTime | None


def test_a_full_verdict_has_the_verdicts_fields_in_their_order() -> None:
    assert list(FullVerdict.model_fields) == [field.name for field in fields(Verdict)]
    assert set(MinimalVerdict.model_fields) < set(FullVerdict.model_fields)


def test_an_answer_is_made_from_a_view_by_attribute() -> None:
    at = datetime(2026, 11, 22, 5, 30, 1, 234_567, tzinfo=timezone(timedelta(hours=1)))
    data = _Response.model_validate(_View(at, None, "hidden"))
    assert bytes(answer(data).body) == (
        b'{"data":{"at":"2026-11-22T04:30:01.234Z","until":null},"message":"OK","status":200,"success":true}'
    )
