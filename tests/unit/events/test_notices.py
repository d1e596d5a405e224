"""When owners are told of a webhook, and in which words."""

from __future__ import annotations

from uuid import UUID

import pytest

from mailsift.events.outbox import MailRoute, NoticeKind, compose_notice, mail_retry_at, notice_after
from mailsift.events.retry import DISABLE_AFTER_S, DisabledReason
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.zones import DEFAULT_ZONE
from mailsift.storage.sql.deliveries import EndpointHealth
from mailsift.storage.sql.outbox import MAIL_RETRY_S, ClaimedNotice

NOW = 1_800_000_000.0
DAY = 86_400.0
NOTICE = UUID("11111111-1111-4111-8111-111111111111")
ENDPOINT = UUID("22222222-2222-4222-8222-222222222222")
SECRET_URL = "https://hooks.example.com/services/T0/B0/very-secret?token=hidden"


ROUTE = MailRoute(send=None, sender="us@example.org", public_url="https://mail.example.org")


def notice(
    kind: NoticeKind,
    reason: DisabledReason = DisabledReason.NO,
    *,
    account: str = "Acme",
    to: str = "a@x.com",
) -> ClaimedNotice:
    return ClaimedNotice(
        id=NOTICE,
        account=account,
        zone=DEFAULT_ZONE,
        kind=kind,
        subject_id=ENDPOINT,
        since=utc_datetime(NOW - 3 * DAY),
        reason=reason,
        created_at=utc_datetime(NOW),
        tries=1,
        url=SECRET_URL,
        enabled=False,
        failing=True,
        owners=to.split(" "),
    )


@pytest.mark.parametrize(
    ("failing_days", "disabled", "kind"),
    [
        (None, DisabledReason.NO, None),
        (0, DisabledReason.NO, None),
        (2.49, DisabledReason.NO, None),
        (2.5, DisabledReason.NO, NoticeKind.FAILING),
        (9, DisabledReason.NO, NoticeKind.FAILING),
        (5, DisabledReason.FAILING, NoticeKind.DISABLED),
        (0, DisabledReason.GONE, NoticeKind.DISABLED),
        (None, DisabledReason.BY_RECEIVER, NoticeKind.DISABLED),
    ],
)
def test_owners_are_told_half_way_and_at_the_end(
    failing_days: float | None, disabled: DisabledReason, kind: NoticeKind | None
) -> None:
    since = None if failing_days is None else utc_datetime(NOW - failing_days * DAY)
    assert notice_after(EndpointHealth(failing_since=since), disabled, NOW) is kind


def test_half_way_is_two_days_and_a_half() -> None:
    assert DISABLE_AFTER_S / 2 == 2.5 * DAY


def test_a_mail_is_tried_for_about_a_day() -> None:
    waits = [(mail_retry_at(tries, NOW) or NOW) - NOW for tries in range(1, 9)]
    assert waits == [*MAIL_RETRY_S, 0, 0]
    assert sorted(MAIL_RETRY_S) == list(MAIL_RETRY_S)
    assert 0.5 * DAY < sum(waits) < 1.5 * DAY


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        (NoticeKind.FAILING, DisabledReason.NO, "after five days of failure, in which ten were given up"),
        (NoticeKind.DISABLED, DisabledReason.FAILING, "has succeeded since 12 Jan 2027, 08:00 UTC"),
        (NoticeKind.DISABLED, DisabledReason.GONE, "410"),
        (NoticeKind.DISABLED, DisabledReason.BY_RECEIVER, "webhook-delivery: disable"),
    ],
)
def test_the_mail_says_what_happened_where_and_what_to_do(
    kind: NoticeKind, reason: DisabledReason, words: str
) -> None:
    link = f"https://mail.example.org/webhooks/{ENDPOINT}"
    mail = compose_notice(notice(kind, reason, to="a@x.com b@x.com"), ROUTE, NOW)
    body = mail.get_content()
    assert words in body.replace("\n", " ")
    assert "Acme" in body
    assert "hooks.example.com" in body
    assert link in body
    assert "enable the webhook" in body or kind is NoticeKind.FAILING
    assert mail["Subject"].startswith("Your webhook at hooks.example.com is ")
    assert (mail["To"], mail["From"]) == ("a@x.com, b@x.com", "us@example.org")
    assert mail["Message-ID"] == f"<notice-{NOTICE}@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "text/plain"


@pytest.mark.parametrize("kind", NoticeKind)
def test_the_path_of_the_url_is_not_in_the_mail(kind: NoticeKind) -> None:
    reason = DisabledReason.NO if kind is NoticeKind.FAILING else DisabledReason.GONE
    mail = compose_notice(notice(kind, reason), ROUTE, NOW).as_string()
    assert "secret" not in mail
    assert "hidden" not in mail


def test_whatever_an_account_is_called_the_mail_holds_together() -> None:
    hostile = notice(NoticeKind.FAILING, account="{host}\r\nBcc: evil@example.com\n.\nZoë 你好")
    raw = compose_notice(hostile, ROUTE, NOW).as_bytes()
    head, _, body = raw.partition(b"\n\n")
    assert b"Bcc" not in head
    assert raw.isascii()
    assert b"{host}" in body


def test_an_address_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="linefeed"):
        compose_notice(notice(NoticeKind.FAILING, to="a@x.com\nBcc:b@x.com"), ROUTE, NOW)
