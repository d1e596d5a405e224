"""What of a list that is half looked at will be whose: by its free-mail domains, and otherwise as so far."""

from __future__ import annotations

from uuid import uuid4

import pytest

from mailsift.jobs.eta import JobLoad, time_left
from mailsift.jobs.forecasts import load_of, load_of_unread
from mailsift.jobs.rates import ProviderRates
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import Provider, Providers
from mailsift.storage.sql.chunks import TRIAGE_KEY
from mailsift.storage.sql.workload import ProgressRow, QueueRow, Queues

TABLE = Providers([Provider("google"), Provider("yahoo"), Provider("deaf", informative=False)])


def load(ahead: int, *progress: ProgressRow, mode: Mode = Mode.DEEP) -> JobLoad:
    """Return the load of a job of which so many addresses nobody has looked at."""
    job = uuid4()
    queues = Queues([QueueRow(job, TRIAGE_KEY, small=False, addresses=ahead, ready_s=0.0)], slots=2)
    rates = ProviderRates(TABLE, ("",), (), (), now=0.0)
    return load_of(job, queues, rates, progress, mode)


def row(key: str, *, worked: int = 0, found: int = 0, named: int = 0, ahead: int = 0) -> ProgressRow:
    return ProgressRow(key, worked, found, recent=0, recent_s=0.0, named=named, named_ahead=ahead)


def test_free_mail_that_was_looked_at_first_is_not_expected_again() -> None:
    looked_at = row(TRIAGE_KEY, worked=1_000)
    found = load(9_000, looked_at, row("google", found=800, named=700, ahead=0))
    assert found.arriving == {"google": pytest.approx(9_000 * 100 / 300)}


def test_free_mail_ahead_is_expected_before_any_of_it_was_looked_at() -> None:
    looked_at = row(TRIAGE_KEY, worked=1_000)
    found = load(9_000, looked_at, row("yahoo", found=100), row("google", ahead=4_000))
    assert found.arriving == {"google": 4_000, "yahoo": pytest.approx(5_000 * 100 / 1_000)}
    assert {queue.key for queue in found.providers} == {"google", "yahoo"}


def test_a_list_that_nobody_has_begun_is_known_by_its_free_mail() -> None:
    assert load(9_000, row("google", ahead=4_000)).arriving == {"google": 4_000}


def test_a_list_that_nobody_has_begun_is_not_as_good_as_done() -> None:
    assert time_left(load(600)).seconds == 10.0  # at 30/s for each of two slots
    blank = load(600, row("google", ahead=300))
    assert [batch.addresses for batch in blank.mixed] == [300]
    begun = load(600, row(TRIAGE_KEY, worked=600), row("google", found=300, named=300))
    assert not begun.mixed
    assert not load(600, row("google", ahead=300), mode=Mode.MEDIUM).mixed


def test_who_tells_nothing_is_not_waited_for() -> None:
    assert load(9_000, row("deaf", ahead=4_000)).arriving == {}


def test_a_preview_that_nobody_has_read_takes_what_its_sample_does() -> None:
    found = load_of_unread(100 * 2**20, Queues(slots=4), Mode.DEEP, preview=600)
    assert time_left(found).seconds == 5.0  # 600 at 30/s for each of four slots
    short = load_of_unread(900, Queues(slots=4), Mode.DEEP, preview=600)
    assert (short.triage, time_left(short).seconds) == (30.0, 0.25)
