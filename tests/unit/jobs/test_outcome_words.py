"""What senders call what happened: a word for an arrival beside another one may be none."""

from __future__ import annotations

import pytest

from mailsift.jobs.outcomes.tables import kind_in_name, kind_of, read_rows
from mailsift.pipeline.outcomes.outcome import OutcomeKind

_K = OutcomeKind


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Never delivered", _K.BOUNCED),
        ("not-delivered", _K.BOUNCED),
        ("Unable to deliver", _K.BOUNCED),
        ("Can't deliver", _K.BOUNCED),
        ("delivery unsuccessful", _K.BOUNCED),
        ("Not successful", _K.BOUNCED),
        ("Not yet delivered", _K.DEFERRED),
        ("Noch nicht zugestellt", _K.DEFERRED),
        ("delivery_attempt", None),
        ("Delivery problem", None),
        ("Delivery pending", None),
        ("Queued for delivery", None),
        ("teilweise zugestellt", None),
        ("Not unsubscribed", None),
        ("never opted out", None),
        ("Email delivered", _K.DELIVERED),
        ("delivery complete", _K.DELIVERED),
        ("Successful delivery", _K.DELIVERED),
        ("Delivered late", _K.DELIVERED),
        ("proxy open", _K.DELIVERED),
        ("Unsubscribed by user", _K.UNSUBSCRIBED),
        ("Rebote blando", _K.DEFERRED),
        ("Weicher Bounce", _K.DEFERRED),
        ("Zacht gebounced", _K.DEFERRED),
        ("Odbicie miękkie", _K.DEFERRED),
        ("Odbicie twarde", _K.BOUNCED),
        ("Rimbalzo permanente", _K.BOUNCED),
        ("Ouverture", _K.DELIVERED),
        ("Abertura", _K.DELIVERED),
        ("Received an email", _K.DELIVERED),
        ("Skarga", _K.COMPLAINED),
        ("Wypisany", _K.UNSUBSCRIBED),
    ],
)
def test_a_phrase_means_what_it_says_as_a_whole(words: str, kind: OutcomeKind | None) -> None:
    assert kind_of(words) is kind


@pytest.mark.parametrize(
    "name",
    [
        *("Stop Method", "Unsubscribe method", "Opt-out source", "Reason for unsubscribing"),
        *(
            "Grund der Abmeldung",
            "Grund für die Abmeldung",
            "Abmeldegrund",
            "Motif de désinscription",
            "Motivo de la baja",
        ),
        *("Motivo della disiscrizione", "Motivo do descadastro", "Reden van uitschrijving", "Afmeldreden"),
        *("Powód wypisania", "配信停止理由"),
    ],
)
def test_who_is_written_off_after_a_bounce_or_a_complaint_shows_no_mailbox(name: str) -> None:
    whys = {"Hard bounce": _K.BOUNCED, "by link": _K.UNSUBSCRIBED, "spam complaint": _K.COMPLAINED}
    rows = [
        ["Email", name, "Status"],
        *([f"u{n}@a.example", why, "unsubscribed"] for n, why in enumerate(whys)),
    ]
    assert [outcome and outcome.kind for outcome in read_rows(iter(rows))] == list(whys.values())


@pytest.mark.parametrize("name", ["Source", "Grund", "Stop", "Data da compra", "開封理由", "Return source"])
def test_what_is_no_reason_of_an_unsubscription_by_name_is_none(name: str) -> None:
    assert kind_in_name(name) is None
