"""Bounces, complaints, webhooks and exports as mail servers and senders write them, and what each tells."""

from __future__ import annotations

import asyncio
import codecs
import gzip
import json
import random
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mailsift.jobs.outcomes import MOST_BYTES
from mailsift.jobs.outcomes.files import read_outcomes, read_suppressed, unpacked
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.outcomes.messages import read_message
from mailsift.pipeline.outcomes.outcome import Outcome, OutcomeKind
from mailsift.pipeline.outcomes.senders import SenderKind, read_webhook

LINES = (Path(__file__).parent / "outcome_reports.jsonl").read_text("utf-8").splitlines()
REPORTS = sorted((json.loads(line) for line in LINES), key=lambda report: report["from"])
EXPORTS = [
    json.loads(line)
    for line in (Path(__file__).parent / "outcome_exports.jsonl").read_text("utf-8").splitlines()
]
SHOWS = {Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED}


def _summary(outcome: Outcome) -> list[str]:
    answer = outcome.diagnosis.answer
    answer_shown = answer.value if answer in SHOWS else "nothing"
    return [
        outcome.address,
        outcome.kind.value,
        "own list" if outcome.diagnosis.was_never_sent else answer_shown,
    ]


def _read(report: dict[str, Any], folder: Path) -> list[list[str]]:
    raw = report["raw"].encode()
    if report["from"] == "file":
        path = folder / "export"
        path.write_bytes(raw)
        return [_summary(outcome) for outcome in read_outcomes(path) if outcome]
    read = read_message(raw) if report["from"] == "message" else read_webhook(SenderKind(report["from"]), raw)
    return [_summary(outcome) for outcome in read if outcome]


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param(list(found), id=name)
        for name, found in groupby(REPORTS, key=lambda report: report["from"])
    ],
)
def test_a_report_is_read_as_it_was_meant(reports: list[dict[str, Any]], tmp_path: Path) -> None:
    read = {report["name"]: _read(report, tmp_path) for report in reports}

    assert read == {report["name"]: report["told"] for report in reports}


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export["name"])
def test_an_export_says_what_happened_when_and_to_which_message(
    export: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "export"
    path.write_text(export["raw"], "utf-8", newline="")

    try:
        outcomes: list[Any] = [
            [*_summary(one), _shown_time(one.happened_at), one.message_id]
            for one in read_outcomes(path)
            if one
        ]
    except MailsiftError as error:
        outcomes = [error.code]

    assert outcomes == export["told"]


def _shown_time(at: float) -> str:
    return f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%d %H:%M:%S}" if at else ""


def test_a_list_that_a_spreadsheet_of_the_west_wrote_is_read_with_its_letters(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        "Empf\xe4nger;Ergebnis\nann@a.example;Ge\xf6ffnet\nbob@a.example;R\xfcckl\xe4ufer\n".encode("cp1252")
    )

    outcomes = [_summary(one) for one in read_outcomes(path) if one]

    assert outcomes == [["ann@a.example", "delivered", "accepted"], ["bob@a.example", "bounced", "nothing"]]


def test_a_list_that_a_spreadsheet_of_japan_wrote_is_read_with_its_letters(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(
        "メールアドレス,配信結果\nann@a.example,迷惑メール報告\nbob@a.example,エラー\n".encode("cp932")
    )

    outcomes = [_summary(one) for one in read_outcomes(path) if one]

    assert outcomes == [["ann@a.example", "complained", "accepted"], ["bob@a.example", "bounced", "nothing"]]


def test_what_a_server_says_in_cyrillic_is_read_in_the_encodings_that_lists_are_read_in(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.csv"
    rows = "email,event,reason\nann@a.example,bounced,550 Такой пользователь не зарегистрирован\n"
    path.write_bytes(rows.encode("cp1251"))
    (outcome,) = read_outcomes(path)
    assert outcome is not None
    assert outcome.diagnosis.answer is Answer.NOT_FOUND
    assert "пользователь" in outcome.diagnosis.text


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("stray", [b"bob@a.example,bounced,M\xfcller\n", b"bob@a.example,bounced,\x8d\n"])
def test_rows_of_another_encoding_leave_the_other_addresses_of_a_report_as_they_are(
    tmp_path: Path, mark: bytes, stray: bytes
) -> None:
    path = tmp_path / "export.csv"
    rows = "email,event,name\nann@bücher.example,delivered,Jörg\neve@straße.example,bounced,Zoë\n"
    path.write_bytes(mark + rows.encode() + stray)

    assert [one.address for one in read_outcomes(path) if one] == [
        "ann@bücher.example",
        "eve@straße.example",
        "bob@a.example",
    ]


def test_rows_of_another_encoding_leave_the_other_addresses_of_json_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_bytes(
        '{"email": "ann@bücher.example", "event": "bounced", "name": "Jörg"}\n'.encode()
        + b'{"email": "bob@a.example", "event": "bounced", "name": "M\xfcller"}\n'
    )

    assert [one.address for one in read_outcomes(path) if one] == ["ann@bücher.example", "bob@a.example"]


_GONE = "550 5.1.1 User unknown"


def test_a_soft_bounce_of_a_table_is_what_the_server_said_as_that_of_a_webhook(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    rows = (
        "Email,Event,Reason",
        f"ann@a.example,soft_bounce,{_GONE}",
        "bob@a.example,soft_bounce,450 4.1.1 unknown",
    )
    path.write_text("\n".join(rows), "utf-8")
    events = [dict(zip(("email", "event", "reason"), row.split(","), strict=True)) for row in rows[1:]]

    posted = read_webhook(SenderKind.BREVO, json.dumps(events).encode())

    outcomes = [_summary(one) for one in read_outcomes(path) if one]
    assert outcomes == [["ann@a.example", "bounced", "not_found"], ["bob@a.example", "deferred", "nothing"]]
    assert outcomes == [_summary(one) for one in posted if one]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # who bounced and opened, nobody knows in what order, may be there
        (
            ["Email,Bounce reason,Last opened", f"ann@a.example,{_GONE},2026-11-03 10:12"],
            [["ann@a.example", "bounced", "nothing"]],
        ),
        (
            [
                "Email,Bounce reason,Bounced at,Last opened",
                f"ann@a.example,{_GONE},2026-11-04 10:12,2026-11-03 10:12",
                f"bob@a.example,{_GONE},2026-11-03 10:12,2026-11-04 10:12",
            ],
            [["ann@a.example", "bounced", "not_found"], ["bob@a.example", "delivered", "accepted"]],
        ),
        # Oklahoma is no delivery, and a list that was found clean no bounce
        (
            [
                "Email,State,Unsubscribed,Is clean",
                "ann@a.example,OK,no,yes",
                "bob@a.example,TX,yes,yes",
                "cy@a.example,CA,no,yes",
            ],
            [["bob@a.example", "unsubscribed", "accepted"]],
        ),
        # a customer whose matter is open has opened nothing
        (
            ["Email,Status,Notes", "ann@a.example,Open,failed", "bob@a.example,Closed,", "cy@a.example,New,"],
            "no_outcome_column",
        ),
        (["Email,Spam score,Delivery type", "ann@a.example,4,bulk"], "no_outcome_column"),
        (
            [
                "email,mailsift_result,mailsift_status,mailsift_reason,mailsift_smtp_code",
                "ann@a.example,mailbox_not_found,invalid,The mail server says: no such mailbox.,550",
            ],
            "no_outcome_column",
        ),
        (["Email,ZB Status,ZB Sub Status", "a@a.example,valid,", "b@a.example,abuse,"], "no_outcome_column"),
        (
            ["Email,Phone,Unsubscribed", "ann@a.example,1793700733,x"],
            [["ann@a.example", "unsubscribed", "accepted"]],
        ),
    ],
)
def test_a_table_of_readers_shows_no_more_than_it_says(
    rows: list[str], expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / "export.csv"
    path.write_text("\n".join(rows))

    try:
        found: Any = [_summary(one) for one in read_outcomes(path) if one]
    except MailsiftError as error:
        found = error.code

    assert found == expected


def test_a_table_with_columns_without_end_is_read_as_far_as_anybody_writes(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("email,event" + ",x" * 200_000 + "\nann@a.example,delivered" + ",1" * 200_000 + "\n")

    assert [_summary(one) for one in read_outcomes(path) if one] == [
        ["ann@a.example", "delivered", "accepted"]
    ]


def test_events_after_a_damaged_line_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    line = '{"email": "%s@a.example", "event": "delivered"}'
    path.write_text(f"{line % 'ann'}\n{{broken\n{line % 'bob'}{line % 'cy'}\n")

    outcomes = list(read_outcomes(path))

    assert [one and one.address for one in outcomes] == [
        "ann@a.example",
        None,
        "bob@a.example",
        "cy@a.example",
    ]


def test_a_record_of_countless_fields_in_fields_is_read_no_deeper_than_anybody_writes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    deep = '{"a": ' * 90_000 + "1" + "}" * 90_000
    wide = json.dumps({"email": "ann@a.example", "event": "bounced", **{f"f{n}": n for n in range(50_000)}})
    path.write_text(f"{wide}\n{deep}\n")

    outcomes = list(read_outcomes(path))

    assert [one and one.address for one in outcomes] == ["ann@a.example", None]


def test_a_time_is_found_by_what_its_column_holds_and_its_days_by_the_whole_column(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(
        "Empfänger;Ergebnis;Wann genau\nann@a.example;zugestellt;5/6/2026 14:03\n"
        "bob@a.example;zugestellt;31/5/2026 9:00\n"
    )

    days = [datetime.fromtimestamp(one.happened_at, UTC).date() for one in read_outcomes(path) if one]

    assert days == [date(2026, 6, 5), date(2026, 5, 31)]


def test_a_bounce_without_a_date_happened_when_it_came_to_its_mailbox(tmp_path: Path) -> None:
    path = tmp_path / "bounces.mbox"
    path.write_text(
        "From MAILER-DAEMON Sat Nov 21 10:00:00 2026\nFrom: MAILER-DAEMON@mx.example\n"
        "Subject: Undelivered Mail Returned to Sender\n\n"
        "<zed@a.example>: host mx[192.0.2.1] said: 550 5.1.1 User unknown (in reply to RCPT TO command)\n"
    )

    (bounce,) = read_outcomes(path)

    assert bounce is not None
    assert datetime.fromtimestamp(bounce.happened_at, UTC) == datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "\ufeffSEP=;"])
def test_a_first_line_that_is_for_spreadsheets_is_no_header(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bounces.csv"
    table = "To;Event;When;Message-Id\nann@a.example;bounced;2026-11-20T10:00:00Z;<1@b.example>\n"
    path.write_text(f"{line}\r\n{table}", encoding="utf-8")
    (found,) = read_outcomes(path)
    assert found is not None
    assert (found.address, found.message_id) == ("ann@a.example", "<1@b.example>")
    assert found.happened_at == datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp()
    assert [one[0] for one in read_suppressed(path)] == ["ann@a.example"]


def test_a_parquet_file_with_texts_as_bytes_is_read_although_one_of_them_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "bytes.parquet"
    columns = {
        "email": [b"jane@acme.test", b"j\xff@acme.test"],
        "event": [b"bounce", b"bounce"],
        "reason": [b"550 5.1.1 user unknown", b"550 5.1.1 user unknown"],
        "timestamp": ["2026-11-20T10:00:00Z"] * 2,
    }
    pl.DataFrame(columns).write_parquet(path)
    assert [one.address for one in read_outcomes(path) if one] == ["jane@acme.test"]


def test_a_parquet_file_of_a_few_bytes_with_millions_of_rows_is_no_file_of_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    one = pl.DataFrame({"email": ["ann@example.com"], "event": ["bounced"]})
    one.select(pl.all().repeat_by(2_000_001).explode()).write_parquet(path)

    with pytest.raises(MailsiftError, match="too_many_rows"):
        read_outcomes(path)


def test_cells_without_an_end_and_cells_within_cells_are_bounded_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    columns = {
        "email": [b"ann@example.com"],
        "event": ["bounced"],
        "reason": ["550 5.1.1 user unknown " * 100_000],
    }
    pl.DataFrame({**columns, "tags": [["x"] * 1_000]}).write_parquet(path)

    (one,) = read_outcomes(path)

    assert one is not None
    assert (one.address, one.diagnosis.answer) == ("ann@example.com", Answer.NOT_FOUND)


def test_a_line_of_json_ends_where_the_line_does(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    rows = [
        {"email": f"a{n}@example.com", "event": "bounced", "reason": "550 5.1.1 gone\u2028user unknown"}
        for n in range(3)
    ]
    path.write_text("\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8", newline="")

    outcomes = list(read_outcomes(path))

    assert [one.address for one in outcomes if one] == [row["email"] for row in rows]
    assert None not in outcomes


def test_a_text_that_somebody_cut_in_the_middle_of_a_character_ends_no_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    cut = {"email": "anna@firm.example", "event": "delivered", "subject": "Sale \ud83d", "id\udca9": 1}
    path.write_text(f"{json.dumps(cut)}\n{json.dumps(cut | {'email': 'bert@firm.example'})}\n")
    assert [one and one.address for one in read_outcomes(path)] == ["anna@firm.example", "bert@firm.example"]
    assert len(list(read_suppressed(path))) == 2


def test_an_address_behind_a_name_is_the_one_that_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(
        "from,to,status\n"
        "News <news@sender.example>,Anna A <anna@firm.example>,unsubscribed\n"
        'News <news@sender.example>,"""B, Bert"" <bert@firm.example>",delivered\n'
    )
    assert [one and one.address for one in read_outcomes(path)] == ["anna@firm.example", "bert@firm.example"]


TITLES = "Bounces of ,Autumn sale\n\nPrinted on,2026-10-02\n"


def test_titles_above_the_names_of_columns_are_no_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text(f"{TITLES}Email,Event,Reason\nann@a.test,bounced,550 5.1.1 no such user\n")
    assert [one and (one.address, one.kind) for one in read_outcomes(path)] == [
        ("ann@a.test", OutcomeKind.BOUNCED)
    ]
    path.write_text(f"{TITLES}Since,Email,Why\n2026-10-02,ann@a.test,manual\n")
    assert [email for email, _, _ in read_suppressed(path)] == ["ann@a.test"]


EVENTS = '{"email":"ann@a.test","event":"delivered"}\n'


def test_a_file_that_is_compressed_tells_what_it_holds_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    packed = tmp_path / "events.gz"
    packed.write_bytes(gzip.compress(EVENTS.encode()) * 2)  # as pieces of a log are put together

    async def read() -> list[str]:
        async with unpacked(packed) as file:
            return [one.address for one in read_outcomes(file) if one]

    assert asyncio.run(read()) == ["ann@a.test"] * 2
    assert list(tmp_path.iterdir()) == [packed]


NOISE = random.Random(1).randbytes(100_000)


@pytest.mark.parametrize(
    ("pack", "code"),
    [
        (lambda: gzip.compress(EVENTS.encode())[:-5], "bad_gzip"),
        (lambda: gzip.compress(b"\n" * (MOST_BYTES + 1)), "compression_bomb"),
        (lambda: gzip.compress(NOISE) * (MOST_BYTES // len(NOISE) + 1), "file_too_large"),
    ],
    ids=["without-end", "bomb", "too-large"],
)
async def test_a_compressed_file_without_its_end_or_of_a_size_without_one_is_refused(
    pack: Callable[[], bytes], code: str, tmp_path: Path
) -> None:
    path = tmp_path / "events.gz"
    path.write_bytes(pack())
    with pytest.raises(MailsiftError) as refused:
        async with unpacked(path):
            pass
    assert refused.value.code == code
