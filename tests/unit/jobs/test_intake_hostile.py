from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import random
import signal
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import psutil
import pytest
import xlsxwriter

from jobs.intake import Intake, IntakeLimits, IntakeOptions, take_in
from pipeline.errors import MailsiftError

ADDRESS = "secret.person@example.com"
LINE = f"1,{ADDRESS},x\n".encode()
MIB = 2**20


async def intake(
    folder: Path, data: bytes, *, column: str = "", limits: IntakeLimits | None = None
) -> Intake | MailsiftError:
    source, workdir = folder / "list*[a].csv", folder / "work"
    workdir.mkdir()
    source.write_bytes(data)
    try:
        return await take_in(
            source, workdir, options=IntakeOptions(column=column), limits=limits or IntakeLimits(seconds=60)
        )
    except MailsiftError as error:
        return error


def bomb() -> bytes:
    """A few hundred kilobytes that gunzip to 200 MiB of rows."""
    packer = io.BytesIO()
    with gzip.open(packer, "wb", compresslevel=9) as file:
        block = b"a@example.com\n" * 75_000
        for _ in range(200):
            file.write(block)
    return packer.getvalue()


def workbook(**parts: bytes) -> bytes:
    packer = io.BytesIO()
    with zipfile.ZipFile(packer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"xl/workbook.xml": b"<workbook/>", **parts}.items():
            archive.writestr(name, content)
    return packer.getvalue()


def sheet(rows: list[list[str]]) -> bytes:
    packer = io.BytesIO()
    with xlsxwriter.Workbook(packer, {"in_memory": True}) as book:
        page = book.add_worksheet()
        for number, row in enumerate(rows):
            page.write_row(number, 0, row)
    return packer.getvalue()


def parquet(frame: pl.DataFrame) -> bytes:
    packer = io.BytesIO()
    frame.write_parquet(packer)
    return packer.getvalue()


HEADER = b"id,email,note\n"
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "empty_file"),
    "only blank lines": (lambda: b"\n\r\n\n" * 1000, "empty_file"),
    "only a mark": (lambda: b"\xef\xbb\xbf", "empty_file"),
    "only a header": (lambda: HEADER, "empty_file"),
    "an empty array": (lambda: b"[]", "empty_file"),
    "an empty workbook": (lambda: sheet([]), "empty_file"),
    "no address": (lambda: b"id,name\n1,Ann\n2,Bob\n", "no_address_column"),
    "numbers only in parquet": (lambda: parquet(pl.DataFrame({"id": [1, 2]})), "no_address_column"),
    "binary rubbish": (lambda: random.Random(1).randbytes(300_000), "binary_file"),
    "rubbish without NUL": (lambda: random.Random(1).randbytes(300_000).replace(b"\0", b"\1"), "binary_file"),
    "a NUL byte far in": (lambda: HEADER + LINE * 10_000 + b"\0" + LINE, "binary_file"),
    "a torn utf-16": (
        lambda: b"\xff\xfe" + (HEADER + LINE).decode().encode("utf-16-le") + b"x",
        "bad_encoding",
    ),
    "json in latin-1": (lambda: '["é@example.com"]'.encode("latin-1"), "bad_encoding"),
    "an unclosed quote": (lambda: HEADER + LINE * 10 + b'2,"' + LINE * 350_000, "unclosed_quote"),
    "an unclosed last quote": (lambda: HEADER + LINE + f'2,{ADDRESS},"open\n'.encode(), "unclosed_quote"),
    "an unclosed quote in a list": (
        lambda: b'email\n"' + ADDRESS.encode() + b"\nb@example.com\n",
        "unclosed_quote",
    ),
    "a lone quote at the end": (lambda: HEADER + LINE + b'"', "unclosed_quote"),
    "100,000 columns": (
        lambda: ",".join(f"c{n}" for n in range(100_000)).encode() + b"\n" * 200_000,
        "too_many_columns",
    ),
    "a million columns": (lambda: b",".join([b"email"] * 1_000_000) + b"\n" + LINE, "too_many_columns"),
    "300 columns": (lambda: ",".join([ADDRESS] * 300).encode(), "too_many_columns"),
    "300 columns far in": (lambda: HEADER + LINE * 9000 + b"x," * 300 + b"\n", "too_many_columns"),
    "300 quoted columns far in": (lambda: HEADER + LINE * 9000 + b'"x",' * 300 + b"\n", "too_many_columns"),
    "300 json keys": (
        lambda: json.dumps({f"k{n}": ADDRESS for n in range(300)}).encode(),
        "too_many_columns",
    ),
    "300 sheet columns": (lambda: sheet([[ADDRESS] * 300]), "too_many_columns"),
    "300 parquet columns": (
        lambda: parquet(pl.DataFrame({f"c{n}": [ADDRESS] for n in range(300)})),
        "too_many_columns",
    ),
    "one endless line": (lambda: b"email\n" + b"a" * 5_000_000, "line_too_long"),
    "one endless json line": (lambda: b'{"email":"' + b"a" * 5_000_000 + b'"}', "line_too_long"),
    "a gzip bomb named csv": (bomb, "compression_bomb"),
    "gzip in gzip": (lambda: gzip.compress(gzip.compress(HEADER + LINE)), "unsupported_format"),
    "a torn gzip": (lambda: gzip.compress(HEADER + LINE * 100)[:-20], "bad_gzip"),
    "rubbish after gzip": (lambda: gzip.compress(HEADER + LINE) + b"rubbish", "bad_gzip"),
    "zstandard": (lambda: b"\x28\xb5\x2f\xfd" + b"x" * 100, "unsupported_format"),
    "an old excel file": (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "unsupported_format"),
    "a zip of something": (
        lambda: workbook().replace(b"xl/workbook.xml", b"xx/workbook.xml"),
        "unsupported_format",
    ),
    "a workbook bomb": (lambda: workbook(**{"xl/sharedStrings.xml": bytes(80 * MIB)}), "compression_bomb"),
    "a hollow workbook": (workbook, "bad_xlsx"),
    "a torn workbook": (lambda: sheet([["email"], [ADDRESS]])[:-100], "bad_xlsx"),
    "a torn parquet file": (lambda: parquet(pl.DataFrame({"email": [ADDRESS]}))[:-40], "bad_parquet"),
    "parquet pages of rubbish": (
        lambda: (data := parquet(pl.DataFrame({"email": [ADDRESS] * 9})))[:8] + b"\xff" * 40 + data[48:],
        "bad_parquet",
    ),
    "nested bytes": (lambda: parquet(pl.DataFrame({"email": [ADDRESS], "x": [[b"\0"]]})), "bad_parquet"),
    "broken json lines": (lambda: b'{"email":"' + ADDRESS.encode() + b'"}\n{"email":\n', "bad_json"),
    "a broken array": (lambda: b'[{"email":"' + ADDRESS.encode() + b'"} {}]', "bad_json"),
    "an unfinished array": (lambda: b'["' + ADDRESS.encode() + b'",', "bad_json"),
    "more after an array": (lambda: b'["' + ADDRESS.encode() + b'"] 1', "bad_json"),
    "json numbers": (lambda: b"[1,2]", "bad_json"),
    "not a number": (lambda: b'[{"email":"a@example.com","n":NaN}]', "bad_json"),
    "half a surrogate": (lambda: b'["\\ud800@example.com"]', "bad_json"),
    "json 30,000 deep": (lambda: b'{"email":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "bad_json"),
    "an array 100,000 deep": (lambda: b"[" * 100_000, "bad_json"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input_ends_with_its_code_and_leaves_the_parent_alone(tmp_path: Path, name: str) -> None:
    make, code = BAD[name]
    data = make()
    before = psutil.Process().memory_info().rss
    error = await intake(tmp_path, data)
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable) == (code, False)
    assert "secret" not in str(error)
    assert len(error.message) < 300
    assert psutil.Process().memory_info().rss - before < 8 * MIB
    assert not children()


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (IntakeLimits(bytes=1000), "file_too_large"),
        (IntakeLimits(rows=99), "too_many_rows"),
        (IntakeLimits(columns=2), "too_many_columns"),
        (IntakeLimits(line_bytes=28), "line_too_long"),
        (IntakeLimits(memory_bytes=200 * MIB), "intake_crashed"),
        (IntakeLimits(seconds=0.01), "intake_timeout"),
    ],
)
async def test_a_limit_exceeded_is_said(tmp_path: Path, limits: IntakeLimits, code: str) -> None:
    error = await intake(tmp_path, HEADER + LINE * 100, limits=limits)
    assert isinstance(error, MailsiftError)
    assert error.code == code


async def test_limits_that_are_just_reached_are_kept(tmp_path: Path) -> None:
    data = HEADER + LINE * 100
    got = await intake(
        tmp_path, data, limits=IntakeLimits(bytes=len(data), rows=100, columns=3, line_bytes=len(LINE) - 1)
    )
    assert isinstance(got, Intake)
    assert got.rows == 100


@pytest.mark.parametrize("mark", [b"", b'"'])
async def test_rows_are_counted_whatever_reads_them(tmp_path: Path, mark: bytes) -> None:
    line = b"1," + mark + b"a@example.com" + mark + b',"two\nlines"\n' if mark else LINE
    error = await intake(tmp_path, HEADER + line * 101, limits=IntakeLimits(rows=100))
    assert isinstance(error, MailsiftError)
    assert error.code == "too_many_rows"


async def test_errors_say_where(tmp_path: Path) -> None:
    error = await intake(tmp_path, HEADER + LINE * 10 + b'\n5,"open\n' + LINE * 9)
    assert isinstance(error, MailsiftError)
    assert "line 13 " in error.message


async def test_a_killed_child_may_be_tried_again_and_a_cancelled_task_leaves_none(tmp_path: Path) -> None:
    data = HEADER + LINE * 200_000
    task = asyncio.create_task(intake(tmp_path, data))
    child = await child_of_this_process()
    child.send_signal(signal.SIGKILL)
    error = await task
    assert isinstance(error, MailsiftError)
    assert (error.code, error.retryable) == ("intake_crashed", True)

    again = tmp_path / "again"
    again.mkdir()
    task = asyncio.create_task(intake(again, data))
    await child_of_this_process()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


def children() -> list[psutil.Process]:
    """Return the intake processes of this process, which may have servers of other tests as children too."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "jobs.intake.child" in child.cmdline():
                found.append(child)
    return found


async def child_of_this_process() -> psutil.Process:
    while not (found := children()):  # noqa: ASYNC110 - the kernel sets no event
        await asyncio.sleep(0.001)
    return found[0]


async def test_the_child_inherits_no_settings_and_its_arguments_name_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILSIFT_DATABASE_URL", "postgresql://secret")
    task = asyncio.create_task(intake(tmp_path, HEADER + LINE * 200_000))
    child = await child_of_this_process()
    seen = await asyncio.to_thread(lambda: (child.environ(), child.cmdline()))
    assert isinstance(await task, Intake)
    assert "secret" not in str(seen)
    assert str(tmp_path) not in str(seen[1])


def test_it_works_on_an_event_loop_outside_the_main_thread(tmp_path: Path) -> None:
    got: list[Intake | MailsiftError] = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(intake(tmp_path, HEADER + LINE))))
    thread.start()
    thread.join()
    assert isinstance(got[0], Intake)
    assert any((tmp_path / "work").iterdir())
