"""What of a list that is half looked at will be whose: by its free-mail domains, and otherwise as so far."""

from __future__ import annotations

from uuid import uuid4

from mailsift.jobs.eta import Batch, JobLoad, QueuedAhead, time_left
from mailsift.jobs.forecasts import load_of, load_of_unread
from mailsift.jobs.rates import ProviderRates
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import Provider, Providers
from mailsift.storage.sql.chunks import MIXED_KEY, TRIAGE_KEY
from mailsift.storage.sql.stats import ProgressRow, QueueRow, Queues

ACCOUNT = uuid4()
TABLE = Providers([Provider("google"), Provider("yahoo"), Provider("deaf", informative=False)])


def load(ahead: int, *progress: ProgressRow, mode: Mode = Mode.DEEP) -> JobLoad:
    """Return the load of a job of which so many addresses nobody has looked at."""
    job = uuid4()
    queues = Queues([QueueRow(job, uuid4(), TRIAGE_KEY, small=False, addresses=ahead, ready_s=0.0)], slots=2)
    rates = ProviderRates(TABLE, ("",), (), (), now=0.0)
    return load_of(job, queues, rates, progress, mode, delays=())


def row(
    key: str, *, worked: int = 0, found: int = 0, named: int = 0, ahead: int = 0, domains: int = 0
) -> ProgressRow:
    return ProgressRow(key, worked, found, 0, 0.0, named, ahead, domains)


def test_free_mail_that_was_looked_at_first_is_not_expected_again() -> None:
    looked_at = row(TRIAGE_KEY, worked=1_000)
    found = load(9_000, looked_at, row("google", found=800, named=700, ahead=0))
    assert found.arriving == {"google": Batch(3_000)}


def test_free_mail_ahead_is_expected_before_any_of_it_was_looked_at() -> None:
    looked_at = row(TRIAGE_KEY, worked=1_000)
    found = load(9_000, looked_at, row("yahoo", found=100), row("google", ahead=4_000))
    assert found.arriving == {"google": Batch(4_000), "yahoo": Batch(500)}
    assert {queue.key for queue in found.providers} == {"google", "yahoo"}


def test_what_nobody_has_looked_at_is_at_as_many_domains_as_the_rest() -> None:
    found = load(4_000, row(TRIAGE_KEY, worked=1_000), row("google", found=100, domains=80))
    assert found.arriving == {"google": Batch(400, domains=320)}


def test_each_domain_is_asked_for_a_random_recipient_too() -> None:
    mine, other = uuid4(), uuid4()
    rows = [
        QueueRow(mine, ACCOUNT, "google", small=False, addresses=100, ready_s=0.0, domains=90),
        QueueRow(other, ACCOUNT, "google", small=False, addresses=60, ready_s=0.0, domains=40),
    ]
    rates = ProviderRates(TABLE, ("",), (), (), now=0.0)
    (backlog,) = load_of(mine, Queues(rows, slots=2), rates, (), Mode.DEEP, delays=()).providers
    assert (backlog.mine, backlog.others) == ([Batch(100, domains=90)], [QueuedAhead(100)])


def test_greylisting_is_over_with_its_first_wait_and_who_was_put_off_twice_is_so_to_the_end() -> None:
    job, rates = uuid4(), ProviderRates(TABLE, ("",), (), (), now=0.0)
    rows = [
        QueueRow(job, ACCOUNT, key, small=False, addresses=10, ready_s=200.0, tries=tries)
        for key in ("google", MIXED_KEY)
        for tries in range(4)
    ]
    found = load_of(job, Queues(rows, slots=2), rates, (), Mode.DEEP, delays=(300.0, 900.0, 3_600.0))
    for batches in (found.providers[0].mine, found.mixed):
        assert [batch.again_s for batch in batches] == [0.0, 0.0, 3_600.0, 0.0]


def test_what_a_worker_has_in_hand_is_asked_for_meanwhile() -> None:
    mine, other = uuid4(), uuid4()
    rows = [
        QueueRow(mine, ACCOUNT, "google", small=False, addresses=100, ready_s=0.0, in_hand=80, in_hand_s=4.0),
        QueueRow(other, ACCOUNT, "google", small=False, addresses=60, ready_s=0.0, in_hand=10, in_hand_s=4.0),
    ]
    rates = ProviderRates(TABLE, ("192.0.2.1", "192.0.2.2"), (), (), now=0.0)
    (rate, _) = [source.real_rate for source in rates.at_sources("google")]
    (backlog,) = load_of(mine, Queues(rows, slots=2), rates, (), Mode.DEEP, delays=()).providers
    assert [batch.recipients for batch in backlog.mine] == [100 - 4.0 * rate]
    assert backlog.others == [QueuedAhead(50)]


def test_the_jobs_of_another_account_are_one_in_line_and_its_small_ones_have_no_precedence() -> None:
    mine, other = uuid4(), uuid4()
    rows = [
        QueueRow(mine, ACCOUNT, "google", small=False, addresses=100, ready_s=0.0),
        QueueRow(uuid4(), ACCOUNT, "google", small=True, addresses=7, ready_s=0.0),
        QueueRow(uuid4(), other, "google", small=True, addresses=20, ready_s=0.0),
        QueueRow(uuid4(), other, "google", small=False, addresses=300, ready_s=0.0),
        QueueRow(uuid4(), other, "yahoo", small=False, addresses=300, ready_s=0.0),
    ]
    rates = ProviderRates(TABLE, ("",), (), (), now=0.0)
    (backlog,) = load_of(mine, Queues(rows, slots=2), rates, (), Mode.DEEP, delays=()).providers
    assert backlog.others == [QueuedAhead(7, first=True), QueuedAhead(320, apart=True, jobs=2)]
    assert time_left(JobLoad([backlog])).reason.endswith(", 3 other jobs in line")


def test_a_list_that_nobody_has_begun_is_known_by_its_free_mail() -> None:
    assert load(9_000, row("google", ahead=4_000)).arriving == {"google": Batch(4_000)}


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
    rates = ProviderRates(TABLE, ("",), (), (), now=0.0)
    found = load_of_unread(100 * 2**20, Queues(slots=4), rates, Mode.DEEP, preview=600)
    assert time_left(found).seconds == 5.0  # 600 at 30/s for each of four slots
    short = load_of_unread(900, Queues(slots=4), rates, Mode.DEEP, preview=600)
    assert (short.triage, time_left(short).seconds) == (30.0, 0.25)
