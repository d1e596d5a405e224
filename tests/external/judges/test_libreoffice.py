"""LibreOffice opens what a customer downloads: a hostile list becomes texts, and no formula."""

from __future__ import annotations

import csv
import io
import subprocess
from pathlib import Path

import httpx
import openpyxl
import pytest

from tests.external.judges.judged_installation import JudgedInstallation

JOBS = "/v1/bulk/jobs"
CSV = "--infilter=CSV:{},34,76,1"  # cells parted by this character, double quotes, UTF-8, from the first line
COMMA, SEMICOLON, TAB = 44, 59, 9

# What a spreadsheet takes for a formula, or for something to be started (OWASP, "CSV Injection"; DDE).
STARTS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "＝",
    "＋",
    "－",
    "＠",
    "\t=",
    "\r\n=",
    "＝＝",
    " =",
    "\u00a0=",
)
PAYLOADS = (
    "1+1",
    "cmd|' /C calc'!A0",
    'HYPERLINK("http://127.0.0.1:9/?x="&A1,"click")',
    'DDE("cmd";"/C calc";"x")',
    "SUM(1+1)*cmd|' /C calc'!A0",
    'IMPORTXML(CONCAT("http://127.0.0.1:9/",A1),"//a")',
    "2+5,=3",
    "'quoted'",
)
HOSTILE = [start + payload for start in STARTS for payload in PAYLOADS]
# Formulas where a semicolon, a tab or a line's end parts cells.
PARTED = [
    "a;=1+1;b",
    'q, r;"=2+2";',
    "x\n=3+3;y",
    "x\r\n=4+4",
    "b\t=5+5\tc",
    "a;;=6+6",
    'a";=7+7;"',
    "a;@SUM(8)",
]
CELLS = [*HOSTILE, *PARTED, "=1", "-2", "+3.5", "ordinary"]
HEADER = ["=cmd|' /C calc'!A0", "email", "@SUM(A1:A9)", "＋1", "\t=1", "-x", "=cmd|' /C calc'!A0"]
FILE_NAME = '=cmd|" /C calc"!A0\r\n＝1.csv'


@pytest.fixture(scope="module")
def job(judged: JudgedInstallation) -> str:
    """A job of the hostile list, which came with a hostile file name."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(HEADER)
    writer.writerows(_row(n, cell) for n, cell in enumerate(CELLS))
    with judged.client("alice") as client:
        file = (FILE_NAME, text.getvalue().encode(), "text/csv")
        sent = client.post(JOBS, files={"file": file}, data={"mode": "fast", "column": "email"})
        assert sent.status_code == 202, sent.text
        job_id: str = sent.json()["data"]["job_id"]
        ended = client.get(f"{JOBS}/{job_id}", params={"wait": 60}).json()["data"]
    assert (ended["status"], ended["total_emails"]) == ("completed", len(CELLS)), ended
    return job_id


def _row(n: int, cell: str) -> list[str]:
    return [cell, f"=1+{n}@example.com", cell.upper(), cell, cell, cell, cell]


def _expected(kind: str) -> list[list[str]]:
    """Return header and customer's columns as they should be read: an apostrophe before what starts badly."""
    rows = [HEADER, *(_row(n, cell) for n, cell in enumerate(CELLS))]
    return [[_defused(cell, inside=kind == "csv") for cell in row] for row in rows]


def _defused(text: str, *, inside: bool) -> str:
    letters = ""
    for place, letter in enumerate(text):
        before = text[:place].rstrip('"')
        begins = place == 0 and text.lstrip(" \u00a0")[:1] in {*"=+-@\t\r\n＝＋－＠"}
        begins |= inside and before[-1:] in {";", "\t", "\r", "\n"} and letter in "=+-@＝＋－＠"
        letters += "'" + letter if begins else letter
    return letters


def _download(judged: JudgedInstallation, job_id: str, kind: str) -> httpx.Response:
    with judged.client("alice") as client:
        answer = client.get(f"{JOBS}/{job_id}/results", params={"format": kind})
    assert answer.status_code == 200
    return answer


def _opened(file: Path, *options: str) -> list[list[tuple[str, object]]]:
    """Let LibreOffice open the file and write a workbook of what it saw; returns its cells' (type, value)."""
    folder = file.parent / "seen"
    profile = (file.parent / "profile").as_uri()
    subprocess.run(
        [
            *("soffice", "--headless", "--norestore", f"-env:UserInstallation={profile}"),
            *options,
            *("--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", str(folder), str(file)),
        ],
        check=True,
        capture_output=True,
        timeout=180,
    )
    return _cells(folder / f"{file.stem}.xlsx")


def _cells(workbook: Path) -> list[list[tuple[str, object]]]:
    book = openpyxl.load_workbook(workbook)
    assert len(book.worksheets) == 1
    return [[(cell.data_type, cell.value) for cell in row] for row in book.active.rows]


def _formulas(rows: list[list[tuple[str, object]]]) -> list[object]:
    return [value for row in rows for type_, value in row if type_ == "f"]


def _texts(rows: list[list[tuple[str, object]]]) -> list[list[str]]:
    """Return the customer's columns; what line ends become is LibreOffice's business."""
    return [[_line_ends(str(value)) for _, value in row[: len(HEADER)]] for row in rows]


def _line_ends(text: str) -> str:
    return text.replace("_x000D_", "\r").replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.needs("soffice")
@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_hostile_list_is_texts_for_libreoffice(
    judged: JudgedInstallation, job: str, kind: str, tmp_path: Path
) -> None:
    answer = _download(judged, job, kind)
    file = tmp_path / f"download.{kind}"
    file.write_bytes(answer.content)
    rows = _opened(file, *([CSV.format(COMMA)] if kind == "csv" else []))
    assert len(rows) == len(CELLS) + 1
    assert len(rows[0]) == len(HEADER) + 16
    assert set(_formulas(rows)) <= ({"=FALSE()", "=TRUE()"} if kind == "xlsx" else set())  # its booleans
    assert _formulas([row[: len(HEADER)] for row in rows]) == []
    assert _texts(rows) == [[_line_ends(cell) for cell in row] for row in _expected(kind)]
    if kind == "xlsx":
        assert _formulas(_cells(file)) == []


@pytest.mark.needs("soffice")
@pytest.mark.parametrize("sign", [SEMICOLON, TAB])
def test_no_formula_either_where_another_sign_parts_the_cells(
    judged: JudgedInstallation, job: str, sign: int, tmp_path: Path
) -> None:
    file = tmp_path / "download.csv"
    file.write_bytes(_download(judged, job, "csv").content)
    rows = _opened(file, CSV.format(sign))
    assert len(rows) > len(CELLS)
    assert _formulas(rows) == []


def test_the_downloads_name_is_harmless(judged: JudgedInstallation, job: str) -> None:
    header = _download(judged, job, "csv").headers["content-disposition"]
    assert header.startswith('attachment; filename="')
    plain = header.partition('filename="')[2].partition('"')[0]
    assert set(plain) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-")
    assert not plain.startswith(("=", "+", "-", "@", "."))
