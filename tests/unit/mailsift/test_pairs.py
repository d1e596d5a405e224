"""Which list's result goes where, and what is refused before anything starts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mailsift.cli.lists import pieces_of, sources_of
from mailsift.cli.pairs import name_of, pair
from mailsift.jobs.places.place import Connections
from mailsift.jobs.places.service import Places
from mailsift.jobs.views import AccountId
from mailsift.pipeline.errors import MailsiftError


def _lists(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("email\n")
    return [str(folder / name) for name in names]


def test_every_list_has_a_result_of_its_own_in_the_folder(tmp_path: Path) -> None:
    lists = _lists(tmp_path, "jan/a.csv", "jan/b.csv")
    found = pair([*lists, lists[0]], str(tmp_path))
    assert found == list(
        zip(lists, [f"{tmp_path}/a.csv.mailsift.csv", f"{tmp_path}/b.csv.mailsift.csv"], strict=True)
    )


def test_a_pattern_that_matches_one_list_today_puts_its_result_into_the_folder_too(tmp_path: Path) -> None:
    (one,) = _lists(tmp_path, "jan/a.csv")
    assert pair([one], f"{tmp_path}/") == [(one, f"{tmp_path}/a.csv.mailsift.csv")]
    assert pair([one], "s3://lake/checked/") == [(one, "s3://lake/checked/a.csv.mailsift.csv")]
    assert pair(["-"], str(tmp_path)) == [("-", f"{tmp_path}/stdin.mailsift.csv")]


@pytest.mark.parametrize("output", ["", "s3://lake/checked/"])
def test_lists_that_are_called_alike_do_not_overwrite_each_other_s_results(
    tmp_path: Path, output: str
) -> None:
    lists = _lists(tmp_path, "jan/list.csv", "feb/list.csv")
    with pytest.raises(MailsiftError, match=r"output_not_writable: Two results .*list\.csv\.mailsift\.csv"):
        pair(lists, output or str(tmp_path))
    assert len(pair(lists, "")) == 2  # beside their lists


def test_no_result_overwrites_another_list(tmp_path: Path) -> None:
    lists = _lists(tmp_path, "list.csv", "list.csv.mailsift.csv")
    with pytest.raises(MailsiftError, match="output_is_input"):
        pair(lists, "")


def test_a_list_is_called_by_what_can_be_written_down_of_its_file_s_name() -> None:
    assert name_of("lists/li\udcffst.csv") == "li\ufffdst.csv"


def _unasked() -> Any:
    raise AssertionError("nobody is asked about files")


async def test_in_a_pattern_only_two_signs_are_no_letters(tmp_path: Path) -> None:
    places = Places(connections=Connections(), web=_unasked, vault=_unasked, database=_unasked)
    (name, *_) = _lists(tmp_path, "lists [1] a.csv", "lists 1 b.csv")
    assert await sources_of([f"{tmp_path}/lists [1]*.csv"], places, "local") == [name]


@pytest.mark.parametrize("missing", ["missing.csv", "missing/*.csv"])
async def test_of_several_lists_the_one_that_is_not_there_is_named(tmp_path: Path, missing: str) -> None:
    places = Places(connections=Connections(), web=_unasked, vault=_unasked, database=_unasked)
    (there,) = _lists(tmp_path, "list.csv")
    with pytest.raises(MailsiftError, match=f"file_not_found: .*{re.escape(missing)}"):
        await sources_of([there, f"{tmp_path}/{missing}"], places, "local")


async def test_who_names_a_pipe_or_no_file_is_told_how_standard_input_is_named(tmp_path: Path) -> None:
    places = Places(connections=Connections(), web=_unasked, vault=_unasked, database=_unasked)
    os.mkfifo(tmp_path / "pipe")
    for name, code in (("pipe", "not_a_file"), ("missing.csv", "file_not_found")):
        with pytest.raises(MailsiftError, match=f"{code}: .* For standard input say -"):
            await sources_of([str(tmp_path / name)], places, "local")


@pytest.mark.parametrize("lists", [["a.csv"], ["a.csv", "b.csv"]])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, lists: list[str]) -> None:
    with pytest.raises(MailsiftError, match=r"output_not_writable: .*checked/\."):
        pair(_lists(tmp_path, *lists), f"{tmp_path}/checked/")


async def test_a_file_that_cannot_be_read_is_no_fault_of_the_store() -> None:
    places = Places(connections=Connections(), web=_unasked, vault=_unasked, database=_unasked)
    nothing_lies_at_its_beginning = "/proc/self/mem"
    with pytest.raises(MailsiftError, match="file_not_readable: The file cannot be read: Input/output error"):
        await anext(pieces_of(nothing_lies_at_its_beginning, AccountId(uuid4()), places))
