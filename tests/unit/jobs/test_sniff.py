"""The bounds a file is held to before any parser sees it, each by itself."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import check_size, check_workbook, gunzip
from mailsift.pipeline.errors import MailsiftError
from tests.support.hostile_files import workbook

NOISE = random.Random(1).randbytes(3_000_000)  # packs hardly, so that its ratio is that of no bomb


def test_what_a_gzip_unpacks_to_is_bounded_below_the_ratio_of_a_bomb_too(tmp_path: Path) -> None:
    source = tmp_path / "list.gz"
    source.write_bytes(gzip.compress(NOISE))
    gunzip(source, tmp_path / "out", IntakeLimits(bytes=len(NOISE)))
    assert (tmp_path / "out").read_bytes() == NOISE
    with pytest.raises(MailsiftError) as refused:
        gunzip(source, tmp_path / "out", IntakeLimits(bytes=len(NOISE) - 1))
    assert refused.value.code == "file_too_large"


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    source = tmp_path / "list"
    source.write_bytes(b"x" * 1000)
    check_size(source, IntakeLimits(bytes=1000))
    with pytest.raises(MailsiftError) as refused:
        check_size(source, IntakeLimits(bytes=999))
    assert refused.value.code == "file_too_large"


def test_what_a_workbook_unpacks_to_is_bounded(tmp_path: Path) -> None:
    source = tmp_path / "book"
    source.write_bytes(workbook(**{"xl/sharedStrings.xml": NOISE}))
    unpacked = len(NOISE) + len("<workbook/>")
    check_workbook(source, IntakeLimits(bytes=unpacked))
    with pytest.raises(MailsiftError) as refused:
        check_workbook(source, IntakeLimits(bytes=unpacked - 1))
    assert refused.value.code == "file_too_large"
