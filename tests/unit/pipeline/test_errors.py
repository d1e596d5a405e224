"""Which errors say that a disk or a store fails: then nothing that was worked on is to blame."""

from __future__ import annotations

import copy
import errno
import pickle
import sys

import psycopg
import pytest
from polars.exceptions import ComputeError
from sqlalchemy.exc import DataError, OperationalError

from mailsift.jobs.engine.engine import is_infrastructure, is_storage
from mailsift.pipeline.errors import MailsiftError, SuspectError, is_full, lacks_frames, outage_of

FULL = "parquet: File out of specification: underlying IO error: No space left on device (os error 28)"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.ENOSPC, "x"), errno.ENOSPC),
        (OSError(errno.EDQUOT, "x"), errno.EDQUOT),
        (NotADirectoryError(errno.ENOTDIR, "x"), errno.ENOTDIR),
        (OSError(errno.ESTALE, "x"), errno.ESTALE),
        (ComputeError(FULL), errno.ENOSPC),
        (caused(ValueError("x"), OSError(errno.EIO, "x")), errno.EIO),
        (ConnectionResetError(errno.ECONNRESET, "x"), 0),
        (TimeoutError(), 0),
        (ValueError("(os error 71)"), 0),
        (ComputeError("parquet: File out of specification: bad magic"), 0),
    ],
    ids=repr,
)
def test_an_outage_of_disk_or_store_is_told_from_a_defect(error: Exception, number: int) -> None:
    assert outage_of(error) == number
    assert is_full(error) == (number in {errno.ENOSPC, errno.EDQUOT})
    assert is_storage(error) == (number != 0)
    assert is_infrastructure(error) or not number


def test_what_our_own_errors_say_counts_and_not_what_led_to_them() -> None:
    away = MailsiftError("blob_store_failed", "Away.", retryable=True)
    assert is_storage(away)
    damaged = caused(MailsiftError("blob_damaged", "x"), FileNotFoundError(errno.ENOENT, "x"))
    assert not is_infrastructure(damaged)


def test_a_process_that_had_no_room_to_load_polars_is_to_blame_and_not_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = NameError("name 'PyLazyFrame' is not defined")  # of its library, which could not be mapped
    assert not is_infrastructure(missing)
    monkeypatch.delitem(sys.modules, "polars._plr")
    assert lacks_frames(missing)
    assert is_infrastructure(missing)
    assert not is_infrastructure(ValueError("bad"))


def test_what_a_database_cannot_hold_is_no_outage_for_it_is_the_same_the_next_time() -> None:
    assert not is_infrastructure(DataError("INSERT", {}, psycopg.DataError()))  # a NUL in a text
    assert is_infrastructure(OperationalError("SELECT", {}, psycopg.OperationalError()))


class OwnError(MailsiftError):
    """As others in the product: its `__init__` takes something else."""

    def __init__(self, *, after: int) -> None:
        super().__init__("too_early", "Later.", retryable=True)
        self.after = after


@pytest.mark.parametrize(
    "error", [MailsiftError("bad", "It is."), SuspectError("odd", "It is."), OwnError(after=3)], ids=repr
)
def test_an_error_goes_to_another_process_whole(error: MailsiftError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - ours
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
