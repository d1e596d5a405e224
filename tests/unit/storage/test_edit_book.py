"""Operators' edits: whom they reach, and how far they may go."""

from __future__ import annotations

import pytest

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask
from mailsift.storage.sql.throttles import ANY_PROVIDER, ANY_SOURCE, EditBook, ThrottleEdit, bounded

ROW = Provider("google", sessions=5, rate=2.0)


def ask(source: str = "", provider: str = "google") -> Ask:
    return Ask(provider, source, "192.0.2.1", 1)


def test_without_edits_a_row_stays_as_it_is() -> None:
    assert EditBook().row(ROW, ask()) is ROW
    assert not EditBook().holds(ask())


@pytest.mark.parametrize(
    ("edit", "rate", "sessions"),
    [
        (ThrottleEdit("google", "", rate=0.5), 0.5, 5),
        (ThrottleEdit("google", "", sessions=1), 2.0, 1),
        (ThrottleEdit("google", "", rate=4.0, sessions=10), 4.0, 10),
        (
            ThrottleEdit("google", "", rate=1e9, sessions=100_000),
            4.0,
            10,
        ),  # whoever wrote this went past the form
    ],
)
def test_no_edit_more_than_doubles_the_row(edit: ThrottleEdit, rate: float, sessions: int) -> None:
    found = bounded(ROW, rate=edit.rate, sessions=edit.sessions)
    assert (found.rate, found.sessions) == (rate, sessions)


def test_an_edit_reaches_its_provider_and_source_only() -> None:
    book = EditBook([ThrottleEdit("google", "192.0.2.1", rate=1.0, held=True)])
    assert book.row(ROW, ask("192.0.2.1")).rate == 1.0
    assert book.row(ROW, ask("192.0.2.2")).rate == 2.0
    assert book.holds(ask("192.0.2.1"))
    assert not book.holds(ask("192.0.2.2"))
    assert not book.holds(ask("192.0.2.1", provider="yahoo"))


def test_every_source_is_reached_at_once_and_a_named_one_counts_more() -> None:
    book = EditBook(
        [
            ThrottleEdit("google", ANY_SOURCE, rate=0.5, sessions=2),
            ThrottleEdit("google", "192.0.2.1", rate=1.5),
        ]
    )
    assert book.row(ROW, ask("192.0.2.2")).rate == 0.5
    named = book.row(ROW, ask("192.0.2.1"))
    assert (named.rate, named.sessions) == (1.5, 2)


@pytest.mark.parametrize(("source", "held"), [("192.0.2.1", [True, False]), (ANY_SOURCE, [True, True])])
def test_a_hold_of_every_provider_is_one_of_a_source_or_of_all_there_are(
    source: str, held: list[bool]
) -> None:
    book = EditBook([ThrottleEdit(ANY_PROVIDER, source, held=True)])
    asks = [ask("192.0.2.1"), ask("192.0.2.2", provider="yahoo")]
    assert [book.holds(one) for one in asks] == held
    assert [book.hold_seconds(one, 0.0) > 0 for one in asks] == held


def test_two_edits_of_one_provider_do_not_add_up_to_more_than_twice() -> None:
    book = EditBook([ThrottleEdit("google", ANY_SOURCE, rate=4.0), ThrottleEdit("google", "", rate=8.0)])
    assert book.row(ROW, ask()).rate == 4.0


def test_what_is_learned_replaces_what_was_known() -> None:
    book = EditBook([ThrottleEdit("google", "", held=True)])
    book.learn([])
    assert not book.holds(ask())
