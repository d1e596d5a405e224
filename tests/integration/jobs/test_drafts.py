"""Lists that wait to be started: in, looked at, started once, discarded, forgotten."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from mailsift.container import OtherParts, open_container
from mailsift.jobs.drafts import Draft, Drafts, Inspection
from mailsift.jobs.erasure import Erasable
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.blobs import DRAFTS, Blobs
from mailsift.storage.states import JobState
from tests.support.installation import code_of
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

CSV = b"id,who,email\n1,Ann,ann@example.com\n2,Bob,BOB@example.com\n3,Bob,bob@example.com\n4,Cy,no at\n"
FAST = JobOptions(mode=Mode.FAST)
DAY = 86_400.0


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(max_rows=1_000, max_bytes=2**20, max_columns=5)


@pytest.fixture
async def drafts(settings: Settings) -> AsyncIterator[Drafts]:
    async with opened(settings, Time()) as made:
        yield made


@asynccontextmanager
async def opened(settings: Settings, clock: Time) -> AsyncIterator[Drafts]:
    async with open_container(settings, other=OtherParts(clock=clock)) as container:
        yield container.drafts


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


def files(settings: Settings) -> list[str]:
    """Name every blob and every file a call has left behind."""
    kept = [settings.home / folder for folder in ("blobs", "blob-cache", "scratch")]
    return sorted(file.name for folder in kept for file in folder.rglob("*") if file.is_file())


async def taken(drafts: Drafts, service: JobService, data: bytes = CSV) -> tuple[AccountId, Draft]:
    account = await service.account("alice")
    return account, await drafts.receive(account, pieces(data[:20], data[20:]), "list.csv")


async def test_a_list_is_looked_at_and_started_with_what_was_chosen(
    settings: Settings, drafts: Drafts, service: JobService
) -> None:
    account, draft = await taken(drafts, service)
    assert (draft.name, draft.bytes) == ("list.csv", len(CSV))
    assert await drafts.waiting(account) == [draft]
    seen = await drafts.inspect(account, draft.id)
    assert (seen.rows, seen.format, seen.encoding, seen.header, seen.guess) == (
        4,
        "csv",
        "utf-8",
        True,
        2,
    )
    assert [column.name for column in seen.columns] == ["id", "who", "email"]
    assert [column.share for column in seen.columns] == [0.0, 0.0, 0.75]
    assert seen.first[1] == ("2", "Bob", "BOB@example.com")
    assert (await service.page(account, limit=20)).jobs == []  # nothing starts by itself
    job_id = await drafts.start(account, draft.id, JobOptions(mode=Mode.FAST, name="Spring", evidence=True))
    assert await drafts.waiting(account) == []
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job_id)
    assert (view.state, view.name, view.valid, view.invalid) == (JobState.COMPLETED, "Spring", 3, 1)
    assert (view.duplicates, view.options.evidence) == (1, True)


async def test_starting_twice_makes_one_job(drafts: Drafts, service: JobService) -> None:
    account, draft = await taken(drafts, service)
    ids = await asyncio.gather(*(drafts.start(account, draft.id, FAST) for _ in range(10)))
    assert set(ids) == {draft.id}
    assert await drafts.start(account, draft.id, FAST) == draft.id
    assert [view.id for view in (await service.page(account, limit=20)).jobs] == [draft.id]


async def test_another_account_sees_nothing_of_a_list(drafts: Drafts, service: JobService) -> None:
    account, draft = await taken(drafts, service)
    other = await service.account("bob")
    assert await drafts.waiting(other) == []
    for refused in (
        drafts.get(other, draft.id),
        drafts.inspect(other, draft.id),
        drafts.start(other, draft.id, FAST),
        drafts.discard(other, draft.id),
    ):
        assert await code_of(refused) == "draft_not_found"
    await drafts.start(account, draft.id, FAST)
    assert await code_of(drafts.start(other, draft.id, FAST)) == "draft_not_found"


@pytest.mark.parametrize("broken", [RuntimeError("hung up"), asyncio.CancelledError()])
async def test_an_upload_that_breaks_off_leaves_nothing(
    settings: Settings, drafts: Drafts, service: JobService, broken: BaseException
) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield CSV
        raise broken

    account = await service.account("alice")
    with pytest.raises(type(broken)):
        await drafts.receive(account, half(), "list.csv")
    assert await code_of(drafts.receive(account, pieces(), "list.csv")) == "empty_file"
    assert files(settings) == []


async def test_a_list_on_its_way_in_leaves_a_trace_and_is_not_offered(
    settings: Settings, drafts: Drafts, service: JobService
) -> None:
    seen: list[object] = []

    async def watched() -> AsyncIterator[bytes]:
        yield CSV
        markers = list((settings.home / "blobs" / "drafts").rglob("*.json"))
        seen.extend((len(markers), await drafts.waiting(account)))

    account = await service.account("alice")
    await drafts.receive(account, watched(), "list.csv")
    assert seen == [1, []]  # who dies here leaves something to sweep


async def test_a_discarded_list_leaves_nothing(
    settings: Settings, drafts: Drafts, service: JobService
) -> None:
    account, draft = await taken(drafts, service)
    await drafts.inspect(account, draft.id)
    assert files(settings) == [f"{draft.id}.json", "look.json", "source"]
    await drafts.discard(account, draft.id)
    assert files(settings) == []
    await taken(drafts, service)  # a store without anything in it would be one that is away
    assert await code_of(drafts.start(account, draft.id, FAST)) == "draft_not_found"


async def test_a_list_nobody_starts_is_forgotten_but_never_a_job(
    settings: Settings, service: JobService
) -> None:
    clock = Time()
    async with opened(settings, clock) as drafts:
        account, old = await taken(drafts, service)
        started = await drafts.receive(account, pieces(CSV), "started.csv")
        marker = settings.home / "blobs" / "drafts" / str(account) / f"{started.id}.json"
        kept = marker.read_bytes()
        await drafts.start(account, started.id, FAST)
        marker.write_bytes(kept)  # as if the process had died before it took the marker away
        clock.now += DAY + 60
        young = await drafts.receive(account, pieces(CSV), "young.csv")
        assert await code_of(drafts.start(account, old.id, FAST)) == "draft_not_found"
        assert [draft.id for draft in await drafts.waiting(account)] == [young.id]
        assert await drafts.sweep() == 0  # it waits a while longer than one can start it
        clock.now += 3_600
        assert await drafts.sweep() == 2
        assert await drafts.sweep() == 0
        kept_jobs = sorted(path.parent.name for path in (settings.home / "blobs" / "jobs").glob("*/source"))
        assert kept_jobs == sorted([str(started.id), str(young.id)])
        assert not marker.exists()


async def test_who_erases_his_lists_leaves_those_that_run_although_a_crash_has_left_their_marker(
    settings: Settings, service: JobService
) -> None:
    async with open_container(settings) as container:
        drafts = container.drafts
        account, started = await taken(drafts, service)
        marker = settings.home / "blobs" / "drafts" / str(account) / f"{started.id}.json"
        kept = marker.read_bytes()
        await drafts.start(account, started.id, FAST)
        await drafts.receive(account, pieces(CSV), "waits.csv")
        marker.write_bytes(kept)
        await container.holdings.erase(account, [Erasable.LISTS], person_id=uuid4(), actor="alice")
    assert files(settings) == ["source"]


async def test_a_list_whose_upload_is_given_up_while_it_is_written_down_leaves_nothing(
    settings: Settings, drafts: Drafts, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, marks = Blobs.put_bytes, 0

    async def given_up(self: Blobs, key: str, data: bytes) -> None:
        nonlocal marks
        marks += key.startswith(DRAFTS)
        if marks > 1:
            raise asyncio.CancelledError
        await put(self, key, data)

    monkeypatch.setattr(Blobs, "put_bytes", given_up)
    account = await service.account("alice")
    with pytest.raises(asyncio.CancelledError):
        await drafts.receive(account, pieces(CSV), "list.csv")
    assert files(settings) == []


async def test_a_list_that_is_discarded_while_it_is_looked_at_leaves_nothing(
    settings: Settings, service: JobService, planter: Planter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_container(settings) as container:
        drafts = container.drafts
        account, draft = await taken(drafts, service)
        put = Blobs.put_bytes

        async def put_late(self: Blobs, key: str, data: bytes) -> None:
            await drafts.discard(account, draft.id)
            await put(self, key, data)

        monkeypatch.setattr(Blobs, "put_bytes", put_late)
        await drafts.inspect(account, draft.id)
        await planter.sql("UPDATE leftover SET due_at = clock_timestamp()")
        await container.eraser.sweep()
    assert files(settings) == []


async def test_who_starts_a_list_while_it_is_discarded_hears_that_it_is_gone(
    drafts: Drafts, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, draft = await taken(drafts, service)
    refusals, delete_prefix = [], Blobs.delete_prefix

    async def start_meanwhile(self: Blobs, prefix: str) -> None:
        refusals.append(await code_of(drafts.start(account, draft.id, FAST)))
        await delete_prefix(self, prefix)

    monkeypatch.setattr(Blobs, "delete_prefix", start_meanwhile)
    await drafts.discard(account, draft.id)
    assert refusals == ["draft_not_found"]
    assert (await service.page(account, limit=20)).jobs == []


async def test_an_account_has_so_many_lists_waiting_and_no_more(drafts: Drafts, service: JobService) -> None:
    account = await service.account("alice")
    some = [await drafts.receive(account, pieces(CSV), "list.csv") for _ in range(20)]
    assert await code_of(drafts.receive(account, pieces(CSV), "list.csv")) == "draft_limit"
    await drafts.discard(account, some[-1].id)
    assert await code_of(drafts.receive(account, pieces(CSV), "list.csv")) == ""


async def test_lists_that_come_at_once_are_no_more_than_may_wait(drafts: Drafts, service: JobService) -> None:
    account = await service.account("alice")
    for _ in range(17):
        await drafts.receive(account, pieces(CSV), "list.csv")
    codes = await asyncio.gather(
        *(code_of(drafts.receive(account, pieces(CSV), "list.csv")) for _ in range(12))
    )
    assert set(codes) <= {"", "draft_limit"}
    assert len(await drafts.waiting(account)) == 17 + codes.count("") <= 20


async def test_lists_too_old_to_be_started_take_no_place(settings: Settings, service: JobService) -> None:
    clock = Time()
    async with opened(settings, clock) as drafts:
        account = await service.account("alice")
        for _ in range(20):
            await drafts.receive(account, pieces(CSV), "list.csv")
        clock.now += DAY  # nobody sees them any more, and they are not deleted yet
        assert await code_of(drafts.receive(account, pieces(CSV), "list.csv")) == ""
        assert len(await drafts.waiting(account)) == 1


async def inspect(drafts: Drafts, service: JobService, data: bytes) -> Inspection:
    account, draft = await taken(drafts, service, data)
    return await drafts.inspect(account, draft.id)


async def test_the_key_of_every_column_leads_intake_to_it(
    settings: Settings, drafts: Drafts, service: JobService
) -> None:
    # The first cells read like numbers of other columns. A row without an address where one was expected
    # is taken for a header, so with another column one row is left.
    seen = await inspect(drafts, service, b"2,1,x@example.com\n5,6,y@example.com\n")
    assert (seen.header, seen.guess, seen.rows) == (False, 2, 2)
    for place, column in enumerate(seen.columns):
        account, draft = await taken(drafts, service, b"2,1,x@example.com\n5,6,y@example.com\n")
        job_id = await drafts.start(account, draft.id, JobOptions(mode=Mode.FAST, column=column.key))
        async with engine_on(settings) as engine:
            view = await work_until_ended(engine, service, account, job_id)
        assert (view.valid, view.invalid) == ((2, 0) if place == 2 else (0, 1)), column


async def test_columns_that_share_a_name_are_told_apart_by_number(
    drafts: Drafts, service: JobService
) -> None:
    seen = await inspect(drafts, service, b"mail,mail\na@example.com,b@example.com\n")
    assert [column.key for column in seen.columns] == ["mail", "2"]


async def test_packed_and_nested_lists_are_looked_into(drafts: Drafts, service: JobService) -> None:
    packed = await inspect(drafts, service, gzip.compress(CSV))
    assert (packed.rows, packed.guess) == (4, 2)
    nested = await inspect(drafts, service, b'{"email":"a@example.com","tags":["x",{"y":1}]}\n' * 3)
    assert (nested.format, nested.rows, nested.header) == ("jsonl", 3, True)
    assert nested.first[0][0] == "a@example.com"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x00\x01\x02" * 100, "binary_file"),
        (b"a@example.com\n" * 1_001, "too_many_rows"),
        (b"a,b,c,d,e,f\n1,2,3,4,5,6\n", "too_many_columns"),
        (b"email\n", "empty_file"),
        (b"%PDF-1.7 ...", "unsupported_format"),
    ],
)
async def test_what_is_no_list_is_told_before_anything_starts(
    drafts: Drafts, service: JobService, data: bytes, code: str
) -> None:
    account, draft = await taken(drafts, service, data)
    assert await code_of(drafts.inspect(account, draft.id)) == code
    assert await drafts.waiting(account) == [draft]


async def test_a_list_without_an_address_column_can_still_be_chosen_from(
    drafts: Drafts, service: JobService
) -> None:
    seen = await inspect(drafts, service, b"<b>who</b>,what\nann,x\nbob,y\n")
    assert (seen.guess, [column.name for column in seen.columns]) == (
        None,
        ["<b>who</b>", "what"],
    )


async def test_the_service_of_an_installation_takes_its_limits(settings: Settings) -> None:
    async with open_container(settings.model_copy(update={"max_rows": 1})) as container:
        drafts = container.drafts
        account = await container.jobs.account("alice")
        draft = await drafts.receive(account, pieces(CSV), "list.csv")
        assert await code_of(drafts.inspect(account, draft.id)) == "too_many_rows"
        assert JobId(draft.id) == draft.id
