from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import obstore
import pytest
from obstore.exceptions import GenericError

from mailsift.pipeline.errors import MailsiftError, SuspectError
from mailsift.storage.blobs import Blobs, JobBlobs, reason_of
from mailsift.storage.foreign import write_object
from mailsift.storage.local_files import clear_abandoned, move_in
from tests.support.small_disk import small_disk

JOB = UUID("00000000-0000-0000-0000-0000000000aa")
TOKEN = UUID("00000000-0000-0000-0000-0000000000bb")


@pytest.fixture(params=["file", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    """A store on this disk, and one that has to be downloaded from."""
    url = {"file": (tmp_path / "a store").as_uri(), "memory": "memory:///"}[request.param]
    return Blobs(url, tmp_path / "cache")


@pytest.mark.parametrize("size", [1, 5 * 2**20 * 10_000, 5 * 2**20 * 10_000 + 1, 5 * 2**40])
async def test_a_file_of_any_size_is_put_in_as_many_parts_as_a_store_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """S3 takes 10,000 parts of 5 MiB to 5 GiB: with the smallest ones an object would end at 49 GiB."""
    parts: list[int] = []

    async def put(*_: object, chunk_size: int = 5 * 2**20, **__: object) -> None:
        parts.append(chunk_size)

    monkeypatch.setattr(obstore, "put_async", put)
    with (tmp_path / "file").open("wb") as file:
        file.truncate(size)
    await Blobs("memory:///", tmp_path / "cache").put_file("jobs/a/file", tmp_path / "file")
    await write_object("s3://bucket/results.csv", {"region": "eu-1"}, tmp_path / "file")
    assert len(parts) == 2
    assert all(5 * 2**20 <= part <= 5 * 2**30 and size <= part * 10_000 for part in parts)


async def test_what_is_put_can_be_fetched_listed_and_deleted(blobs: Blobs, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"from a file")
    await blobs.put_file("jobs/a/file", file)
    await blobs.put_bytes("jobs/a/deep/bytes", b"some bytes")
    await blobs.put_bytes("jobs/ab/other", b"")
    assert (await blobs.fetch("jobs/a/file")).read_bytes() == b"from a file"
    assert (await blobs.fetch("jobs/a/deep/bytes")).read_bytes() == b"some bytes"
    assert (await blobs.fetch("jobs/ab/other")).read_bytes() == b""
    assert await blobs.list("jobs/a") == ("jobs/a/deep/bytes", "jobs/a/file")
    assert await blobs.exists("jobs/a/file")
    await blobs.delete("jobs/a/file")
    await blobs.delete("jobs/a/file")
    assert not await blobs.exists("jobs/a/file")
    await blobs.delete_prefix("jobs/a")
    await blobs.delete_prefix("jobs/a")
    assert await blobs.list("jobs") == ("jobs/ab/other",)


@pytest.mark.parametrize("fault", [None, OSError])
async def test_a_file_is_shared_with_a_local_store_and_copied_where_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[OSError] | None
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if fault is not None:
        monkeypatch.setattr(os, "link", refuse)
    blobs, file = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache"), tmp_path / "file"
    for text in ("old", "new"):
        file.unlink(missing_ok=True)
        file.write_text(text)
        for _ in range(2):
            await blobs.put_file("jobs/a", file)
        stored = await blobs.fetch("jobs/a")
        assert stored.read_text() == text
        assert stored.samefile(file) is (fault is None)
    assert not [path for path in files_below(tmp_path) if "linked" in path.name]


async def test_a_blob_put_again_is_fetched_anew(blobs: Blobs) -> None:
    await blobs.put_bytes("jobs/a", b"old")
    assert (await blobs.fetch("jobs/a")).read_bytes() == b"old"
    await blobs.put_bytes("jobs/a", b"new")
    assert (await blobs.fetch("jobs/a")).read_bytes() == b"new"


async def test_fetching_what_is_not_there_is_an_error_of_ours(blobs: Blobs) -> None:
    await blobs.put_bytes("jobs/a", b"")
    with pytest.raises(MailsiftError) as caught:
        await blobs.fetch("jobs/none")
    assert (caught.value.code, caught.value.retryable) == ("blob_not_found", False)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("status code: 403 Forbidden: <?xml?>\n<Error><Code>ExpiredToken</Code><Message>no", "ExpiredToken"),
        ("status code: 403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code>", "RequestTimeTooSkewed"),
        ("status code: 503 Service Unavailable: <html>ann@example.com", "503 Service Unavailable"),
        ("status code: 403 Forbidden: \n\nDebug source: PermissionDenied {", "403 Forbidden"),
        ("status code: 403 Forbidden: <Code>AKIA2OGYBAH6/secret</Code>", "403 Forbidden"),
        ("HTTP error: error sending request\n\nDebug source", "HTTP error: error sending request"),
        ("this indicates an incorrectly configured region\n", "an incorrectly configured region"),
        ("Unable to open file /srv/blobs/jobs/a: Stale file handle (os error 116)", "Stale file handle"),
        ("Unable to extract metadata from headers", "GenericError"),
    ],
)
def test_what_a_store_failed_by_is_told_in_its_own_word_alone(message: str, expected: str) -> None:
    assert (
        reason_of(GenericError(f"Error performing PUT http://store/bucket/key in 3ms - {message}"))
        == expected
    )


@pytest.mark.parametrize("fault", ["gone", "not mounted", "something else"])
async def test_a_local_store_that_is_away_is_no_store_without_this_blob(tmp_path: Path, fault: str) -> None:
    store = tmp_path / "store"
    blobs = Blobs(store.as_uri(), tmp_path / "cache")
    await blobs.put_bytes("jobs/a", b"mine")
    store.rename(tmp_path / "away")
    if fault == "not mounted":
        store.mkdir()
    elif fault == "something else":
        store.write_text("")
    for fetch in (blobs.fetch, blobs.fetch_sound):
        with pytest.raises(MailsiftError) as caught:
            await fetch("jobs/a")
        assert (caught.value.code, caught.value.retryable) == ("blob_store_failed", True)


@pytest.mark.parametrize(
    "ask", ["fetch", "fetch_if_there", "exists", "sizes", "delete", "delete_prefix", "put_bytes", "recheck"]
)
@pytest.mark.parametrize("place", ["bucket", "folder", "mount"])
async def test_of_a_store_that_is_away_nothing_is_believed_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, ask: str
) -> None:
    """S3 answers 404 for any key of a bucket that is gone, and a HEAD has no words beside it."""

    async def no_key(*_: object, **__: object) -> None:
        raise FileNotFoundError("404")

    async def no_bucket(*_: object, **__: object) -> None:
        raise GenericError("404: NoSuchBucket")

    store = tmp_path / "store"
    blobs = Blobs("memory:///" if place == "bucket" else store.as_uri(), tmp_path / "cache")
    await blobs.put_bytes("jobs/a/b", b"mine")
    if place == "bucket":
        for request in ("head_async", "get_async", "put_async", "delete_async"):
            monkeypatch.setattr(obstore, request, no_key)
        monkeypatch.setattr(obstore, "list_with_delimiter_async", no_bucket)
        monkeypatch.setattr(obstore, "list", lambda *_: SimpleNamespace(collect_async=no_bucket))
    else:
        store.rename(tmp_path / "away")
    if place == "mount":
        store.mkdir()
    if ask == "recheck":
        await blobs.recheck()
    else:
        more = (b"mine",) if ask == "put_bytes" else ()
        with pytest.raises(MailsiftError) as caught:
            await getattr(blobs, ask)("jobs/a/b", *more)
        assert (caught.value.code, caught.value.retryable) == ("blob_store_failed", True)
    assert blobs.trouble == "blob_store_failed"


@pytest.mark.parametrize("ask", ["fetch", "fetch_if_there", "exists", "sizes", "delete_prefix", "recheck"])
async def test_what_answers_everything_with_a_page_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    """As a proxy does that wants somebody to sign in: its page is no blob, and no list that is empty."""

    async def page(*_: object, **__: object) -> dict[str, object]:
        return {"path": "", "size": 46, "e_tag": None, "version": None}

    async def no_keys(*_: object, **__: object) -> list[object]:
        return []

    blobs = Blobs("memory:///", tmp_path / "cache")
    monkeypatch.setattr(obstore, "head_async", page)
    monkeypatch.setattr(obstore, "list", lambda *_: SimpleNamespace(collect_async=no_keys))
    if ask == "recheck":
        await blobs.recheck()
    else:
        with pytest.raises(MailsiftError, match="blob_store_failed"):
            await getattr(blobs, ask)("jobs/a/b")
    assert blobs.trouble == "blob_store_failed"


@pytest.mark.parametrize("by_another_process", [False, True])
async def test_nothing_is_put_where_a_local_store_should_be_mounted(
    tmp_path: Path, *, by_another_process: bool
) -> None:
    """It would be hidden later, and until then what is in the store would pass for lost."""
    store, file = tmp_path / "store", tmp_path / "file"
    file.write_bytes(b"mine")
    blobs = Blobs(store.as_uri(), tmp_path / "cache")
    await blobs.put_bytes("jobs/a", b"mine")
    if by_another_process:
        blobs = Blobs(store.as_uri(), tmp_path / "cache")
    store.rename(tmp_path / "away")
    store.mkdir()

    async def stream() -> None:
        async with blobs.stream_in("jobs/b") as incoming:
            await incoming.write(b"mine")

    for put in (
        blobs.put_bytes("jobs/b", b"mine"),
        blobs.put_all({"jobs/b": b"mine"}),
        blobs.put_file("jobs/b", file),
        stream(),
    ):
        with pytest.raises(MailsiftError) as caught:
            await put
        assert (caught.value.code, caught.value.retryable) == ("blob_store_failed", True)
    assert blobs.trouble
    assert not any(store.iterdir())
    store.rmdir()
    (tmp_path / "away").rename(store)
    await blobs.put_bytes("jobs/b", b"mine")
    assert not blobs.trouble


async def test_who_starts_before_its_local_store_is_mounted_puts_nothing_there(tmp_path: Path) -> None:
    store, mark = tmp_path / "store", tmp_path / "store" / ".mailsift"
    lists = [False, True, True]

    async def has_lists() -> bool:
        return lists.pop(0)

    blobs = Blobs(store.as_uri(), tmp_path / "cache", has_lists=has_lists)
    await blobs.recheck()
    assert not blobs.trouble  # nobody has a list yet
    with pytest.raises(MailsiftError) as caught:
        await blobs.put_bytes("jobs/b", b"mine")
    assert (caught.value.code, caught.value.retryable) == ("blob_store_failed", True)
    assert not any(store.iterdir())
    again = Blobs(store.as_uri(), tmp_path / "cache", has_lists=has_lists)
    await again.recheck()
    assert again.trouble == "blob_store_failed"
    mark.mkdir()  # it is a new one
    await again.recheck()
    assert not again.trouble
    await again.put_bytes("jobs/b", b"mine")


async def test_a_local_store_whose_last_blob_was_deleted_is_none_that_is_away(tmp_path: Path) -> None:
    blobs = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache")
    await blobs.put_bytes("jobs/a", b"mine")
    await blobs.delete("jobs/a")
    with pytest.raises(MailsiftError, match="blob_not_found"):
        await blobs.fetch("jobs/a")
    assert not blobs.trouble


async def test_damage_to_a_segment_is_seen_and_that_to_its_copy_is_mended(
    blobs: Blobs, tmp_path: Path
) -> None:
    key = JobBlobs(JOB).segment(3, TOKEN, b"verdicts")
    await blobs.put_bytes("jobs/other", b"")
    assert await blobs.fetch_sound(key) is None
    await blobs.put_bytes(key, b"verdicts")
    path = await blobs.fetch_sound(key)
    assert path is not None
    is_copy = path.is_relative_to(tmp_path / "cache")
    path.write_bytes(b"Verdicts")
    assert await blobs.fetch_sound(key) == (path if is_copy else None)
    await blobs.put_bytes(key, b"verdictz")
    assert await blobs.fetch_sound(key) is None
    await blobs.put_bytes(JobBlobs(JOB).prefix + "/segments/3-of-an-older-release.parquet", b"x")
    assert await blobs.fetch_sound(JobBlobs(JOB).prefix + "/segments/3-of-an-older-release.parquet")


async def test_a_blob_that_is_another_than_was_stored_is_told_by_its_digest(
    blobs: Blobs, tmp_path: Path
) -> None:
    digest = hashlib.sha256(b"the list").hexdigest()
    await blobs.put_bytes("jobs/a/source", b"the list")
    path = await blobs.fetch_as("jobs/a/source", digest)
    if path.is_relative_to(tmp_path / "cache"):
        path.write_bytes(b"a copy that is damaged")
        assert (await blobs.fetch_as("jobs/a/source", digest)).read_bytes() == b"the list"
    await blobs.put_bytes("jobs/a/source", b"<html>Sign in to the proxy</html>")
    with pytest.raises(SuspectError) as caught:
        await blobs.fetch_as("jobs/a/source", digest)
    assert (caught.value.code, blobs.trouble) == ("source_damaged", "")
    assert (await blobs.fetch_as("jobs/a/source", "")).is_file()


async def test_many_are_fetched_in_the_order_they_were_asked_for(blobs: Blobs) -> None:
    keys = [f"jobs/a/{n}" for n in range(50)]
    for key in keys:
        await blobs.put_bytes(key, key.encode())
    paths = await blobs.fetch_all(keys)
    assert [path.read_bytes().decode() for path in paths] == keys
    with pytest.raises(MailsiftError) as caught:
        await blobs.fetch_all([*keys, "jobs/none"])
    assert caught.value.code == "blob_not_found"
    await blobs.delete_prefix("jobs/a")
    assert await blobs.list("jobs") == ()


async def test_a_stream_is_counted_and_hashed_and_stored_at_its_end(blobs: Blobs) -> None:
    async with blobs.stream_in("jobs/a/source") as incoming:
        await incoming.write(b"first ")
        await incoming.write(b"x" * 3_000_000)
        assert not await blobs.exists("jobs/a/source")
    data = b"first " + b"x" * 3_000_000
    assert (incoming.size, incoming.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (await blobs.fetch("jobs/a/source")).read_bytes() == data


@pytest.mark.parametrize("failure", [RuntimeError, asyncio.CancelledError])
async def test_a_stream_that_fails_leaves_nothing(
    blobs: Blobs, tmp_path: Path, failure: type[BaseException]
) -> None:
    async def upload() -> None:
        async with blobs.stream_in("jobs/a/source") as incoming:
            await incoming.write(b"half")
            raise failure

    with pytest.raises(failure):
        await upload()
    assert not await blobs.exists("jobs/a/source")
    assert not files_below(tmp_path)


async def test_a_sweep_between_an_uploads_last_byte_and_its_place_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache")

    def sweep_first(path: Path, target: Path) -> bool:
        assert clear_abandoned(path.parent) == 0
        return move_in(path, target)

    monkeypatch.setattr("mailsift.storage.blobs.move_in", sweep_first)
    async with blobs.stream_in("jobs/a/source") as incoming:
        await incoming.write(b"ann@example.org")
    assert (await blobs.fetch("jobs/a/source")).read_bytes() == b"ann@example.org"


async def test_a_sweep_that_takes_a_new_file_before_it_is_locked_costs_another_file_and_no_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, sweeps = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache"), iter([True, True, False])

    def sweep_first(descriptor: int, operation: int) -> None:
        if not operation & fcntl.LOCK_NB and next(sweeps, False):
            assert clear_abandoned(tmp_path / "cache") == 1
        lock(descriptor, operation)

    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", sweep_first)
    async with blobs.stream_in("jobs/a/source") as incoming:
        await incoming.write(b"ann@example.org")
    assert (await blobs.fetch("jobs/a/source")).read_bytes() == b"ann@example.org"
    assert files_below(tmp_path / "cache") == []


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "../a",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "a\nb",
        "a\n",
        "a\0",
        "a b",
        "é",
        "a%2e",
        "a\\b",
        "x" * 501,
    ],
)
async def test_a_key_that_is_no_plain_relative_path_is_refused(blobs: Blobs, key: str) -> None:
    for attempt in (
        lambda: blobs.fetch(key),
        lambda: blobs.put_bytes(key, b""),
        lambda: blobs.delete(key),
        lambda: blobs.delete_prefix(key),
        lambda: blobs.list(key),
        lambda: blobs.exists(key),
        lambda: blobs.stream_in(key).__aenter__(),
    ):
        with pytest.raises(MailsiftError) as caught:
            await attempt()
        assert caught.value.code == "bad_blob_key"


async def test_a_local_blob_is_fetched_where_it_lies_and_empty_folders_go(tmp_path: Path) -> None:
    blobs = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache")
    await blobs.put_bytes("jobs/a/source", b"x")
    assert await blobs.fetch("jobs/a/source") == tmp_path / "store/jobs/a/source"
    await blobs.delete_prefix("jobs/a")
    assert not (tmp_path / "store/jobs/a").exists()
    assert not (tmp_path / "cache").exists()


async def test_what_a_killed_writer_left_half_written_goes_with_its_job(tmp_path: Path) -> None:
    blobs = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache")
    for prefix in ("jobs/a", "jobs/b"):
        await blobs.put_bytes(f"{prefix}/segments/1", b"whole")
        (tmp_path / "store" / prefix / "segments" / "2#1").write_bytes(b"half")  # as object_store names it
    await blobs.delete_prefix("jobs/a")
    assert await blobs.list("jobs/b") == ("jobs/b/segments/1",)
    assert [path.name for path in (tmp_path / "store" / "jobs").iterdir()] == ["b"]


async def test_a_download_is_kept_and_the_longest_unused_is_dropped(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    blobs = Blobs("memory:///", cache, cache_bytes=250)
    paths = []
    for age, key in enumerate(("a", "b", "c")):
        await blobs.put_bytes(key, key.encode() * 100)
        paths.append(await blobs.fetch(key))
        os.utime(paths[-1], (age, age))
    assert [path.exists() for path in paths] == [False, True, True]
    again = await blobs.fetch("b")
    assert again == paths[1]
    await blobs.put_bytes("d", b"d" * 100)
    await blobs.fetch("d")
    assert [path.exists() for path in paths] == [False, True, False]
    assert not [path for path in cache.iterdir() if path.is_file()]


async def test_concurrent_fetches_of_one_blob_all_get_all_of_it(tmp_path: Path) -> None:
    blobs = Blobs("memory:///", tmp_path / "cache")
    data = os.urandom(5_000_000)
    await blobs.put_bytes("a", data)
    paths = await asyncio.gather(*(blobs.fetch("a") for _ in range(8)))
    assert {path.read_bytes() for path in paths} == {data}


async def test_a_store_that_fails_is_worth_another_try(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    blobs = Blobs((tmp_path / "store").as_uri(), tmp_path / "cache")
    await blobs.put_bytes("a", b"")
    with pytest.raises(MailsiftError) as caught:
        await blobs.put_bytes("a/b", b"")
    assert (caught.value.code, caught.value.retryable) == ("blob_store_failed", True)


def test_all_blobs_of_a_job_lie_under_its_prefix() -> None:
    keys = JobBlobs(JOB)
    assert keys.prefix == f"jobs/{JOB}"
    assert {
        keys.source,
        keys.rows,
        keys.addresses,
        keys.results,
        keys.segment(3, TOKEN, b"verdicts"),
        keys.deferred(3, TOKEN),
    } == {
        f"jobs/{JOB}/{name}"
        for name in (
            "source",
            "rows.parquet",
            "addresses.parquet",
            "results.parquet",
            f"segments/3-{TOKEN}-x70dd27e3d4349e0f.parquet",
            f"residual/3-{TOKEN}.parquet",
        )
    }


@pytest.mark.needs("root")
async def test_a_full_disk_is_called_so_leaves_nothing_behind_and_passes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)  # noqa: ASYNC221 - brief
    try:
        blobs = Blobs((disk / "blobs").as_uri(), disk / "cache")
        (disk / "ballast").write_bytes(bytes(100_000))
        with pytest.raises(MailsiftError) as streamed:
            async with blobs.stream_in("a/list") as incoming:
                await incoming.write(bytes(300_000))
        with pytest.raises(MailsiftError) as put:
            await blobs.put_bytes("a/list", bytes(300_000))
        for failed in (streamed.value, put.value):
            assert (failed.code, failed.retryable) == ("storage_full", True)
        assert await blobs.list("a") == ()
        assert list((disk / "cache").iterdir()) == []
        (disk / "ballast").unlink()
        await blobs.put_bytes("a/list", bytes(120_000))
        assert await blobs.exists("a/list")
    finally:
        subprocess.run(["umount", disk], check=True)  # noqa: ASYNC221 - brief


async def test_a_store_that_goes_is_noticed_before_anybody_needs_it(tmp_path: Path) -> None:
    blobs = Blobs((tmp_path / "blobs").as_uri(), tmp_path / "cache")
    await blobs.put_bytes("a", b"1")
    (tmp_path / "blobs").rename(tmp_path / "away")
    assert blobs.trouble == ""
    await blobs.recheck()
    assert blobs.trouble == "blob_store_failed"
    (tmp_path / "away").rename(tmp_path / "blobs")
    await blobs.recheck()
    assert blobs.trouble == ""


@pytest.mark.needs("root")
async def test_a_store_that_can_only_be_read_is_noticed_before_anybody_needs_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mebibytes=1) as disk:
        assert disk is not None
        blobs = Blobs((disk / "blobs").as_uri(), tmp_path / "cache")
        await blobs.put_bytes("a", b"1")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)  # noqa: ASYNC221 - brief
        await blobs.recheck()
        assert blobs.trouble == "blob_store_failed"
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)  # noqa: ASYNC221 - brief
        await blobs.recheck()
        assert blobs.trouble == ""


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("")
    with pytest.raises(MailsiftError, match="blob_store_failed"):
        Blobs((tmp_path / "blobs").as_uri(), tmp_path / "cache")
