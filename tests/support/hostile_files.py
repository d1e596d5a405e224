"""Files no customer should send, and the code each of them ends with."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl
import xlsxwriter

ADDRESS = "secret.person@example.com"
MIB = 2**20
LINE = f"1,{ADDRESS},x\n".encode()


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


def in_zone(zone: str) -> bytes:
    """Return a Parquet list with a moment in a zone of 6 or 13 letters, whether it exists or not."""
    there = {6: "Israel", 13: "Europe/Berlin"}[len(zone)]
    frame = pl.DataFrame({"email": [ADDRESS], "at": [datetime(2024, 1, 1, tzinfo=UTC)]})
    frame = frame.with_columns(pl.col("at").dt.convert_time_zone(there)).with_columns(
        pl.struct(pl.concat_list("at").alias("of")).alias("nested")
    )
    packer = io.BytesIO()
    frame.write_parquet(packer, compression="uncompressed")

    def renamed(schema: re.Match[bytes]) -> bytes:
        return base64.b64encode(base64.b64decode(schema[0]).replace(there.encode(), zone.encode()))

    return re.sub(rb"/////[A-Za-z0-9+/=]+", renamed, packer.getvalue())  # of Arrow, in base64


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
    "300 columns": (lambda: 2 * f"{','.join([ADDRESS] * 300)}\n".encode(), "too_many_columns"),
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
    "a web page called a workbook": (
        lambda: b"\n<HTML><body><table><tr><td>" + ADDRESS.encode() + b"</td></tr>\n</table>",
        "unsupported_format",
    ),
    "an old excel's XML": (
        lambda: b'<?xml version="1.0"?>\n<Workbook><Cell>' + ADDRESS.encode() + b"</Cell></Workbook>",
        "unsupported_format",
    ),
    "vcards": (lambda: b"BEGIN:VCARD\nEMAIL:" + ADDRESS.encode() + b"\nEND:VCARD\n", "unsupported_format"),
    "a data frame by columns": (lambda: b'{"email":{"0":"' + ADDRESS.encode() + b'"}}', "bad_json"),
    "a data frame by rows": (lambda: b'{"0":{"email":"' + ADDRESS.encode() + b'"}}', "bad_json"),
    "broken json lines": (lambda: b'{"email":"' + ADDRESS.encode() + b'"}\n{"email":\n', "bad_json"),
    "a broken array": (lambda: b'[{"email":"' + ADDRESS.encode() + b'"} {}]', "bad_json"),
    "an unfinished array": (lambda: b'["' + ADDRESS.encode() + b'",', "bad_json"),
    "more after an array": (lambda: b'["' + ADDRESS.encode() + b'"] 1', "bad_json"),
    "json numbers": (lambda: b"[1,2]", "bad_json"),
    "not a number": (lambda: b'[{"email":"a@example.com","n":NaN}]', "bad_json"),
    "half a surrogate": (lambda: b'["\\ud800@example.com"]', "bad_json"),
    "a number of 5,000 digits": (
        lambda: b'[{"email":"a@example.com","n":' + b"9" * 5_000 + b"}]",
        "bad_json",
    ),
    "json 30,000 deep": (lambda: b'{"email":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "bad_json"),
    "an array 100,000 deep": (lambda: b"[" * 100_000, "bad_json"),
}
OF_EACH_KIND = sorted({code: name for name, (_, code) in BAD.items()}.values())


def small_workbook(
    cells: str, *, strings: str = "", styles: str = "", settings: str = "", sheets: str = '<sheet r:id="r0"/>'
) -> bytes:
    """Return a workbook of one sheet with this content of its sheetData."""
    kinds = {"sheet1": "worksheets/sheet1.xml", "sharedStrings": "sharedStrings.xml", "styles": "styles.xml"}
    related = "".join(
        f'<Relationship Id="r{n}" Type="http://x/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(kinds.items())
    )
    parts = {
        "xl/workbook.xml": f'<workbook xmlns:r="r">{settings}<sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"<Relationships>{related}</Relationships>",
        "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{cells}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
        "xl/styles.xml": f"<styleSheet>{styles}</styleSheet>",
    }
    return workbook(**{name: content.encode() for name, content in parts.items()})


def three_cells(*references: str) -> bytes:
    """Return a workbook with an address at each of these places, all said to be in one row."""
    cell = '<c r="{}" t="inlineStr"><is><t>a@example.com</t></is></c>'
    return small_workbook("<row>" + "".join(map(cell.format, references)) + "</row>")
