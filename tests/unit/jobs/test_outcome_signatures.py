"""Amazon SNS is believed by its certificate, for one topic, and for a day; nothing else is fetched."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

from mailsift.jobs.outcomes.receivers import ReceivedPost, SenderTrust, VerifiedPost, verify_post
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SenderKind
from tests.support.sns import CERTIFICATE, CONFIRM, EVENT, NOW, TOPIC, signed, signer


async def asked(message: dict[str, Any], *, topic: str = TOPIC) -> tuple[VerifiedPost, list[str]]:
    fetched: list[str] = []

    async def fetch(url: str) -> bytes:
        fetched.append(url)
        return signer()[1]

    posted = ReceivedPost({}, json.dumps(message).encode())
    return await verify_post(SenderKind.SES, posted, SenderTrust(b"", topic, fetch, NOW.timestamp())), fetched


@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_notification_of_the_topic_is_believed(version: str) -> None:
    believed, fetched = await asked(signed(version, Subject="Amazon SES"))
    assert believed == VerifiedPost(EVENT.encode())
    assert fetched == [CERTIFICATE]


async def test_what_ses_says_when_it_is_told_of_a_topic_is_no_event() -> None:
    text = "Successfully validated SNS topic for Amazon SES event publishing."
    assert (await asked(signed(Message=text)))[0] == VerifiedPost(b"")


async def test_a_subscription_is_confirmed_for_the_topic_alone() -> None:
    parts = {"Type": "SubscriptionConfirmation", "Token": "t", "SubscribeURL": CONFIRM}
    assert (await asked(signed(**parts)))[0] == VerifiedPost(b"", confirm=CONFIRM)
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed(**parts, TopicArn=TOPIC.replace("bounces", "others")))


@pytest.mark.parametrize(
    "changes",
    [
        {"Message": '{"notificationType": "Bounce"}'},
        {"MessageId": "m-2"},
        {"SignatureVersion": "1"},
        {"SignatureVersion": "3"},
        {"Type": "UnsubscribeConfirmation"},
        {"Signature": ""},
        {"Signature": "not base64!"},
    ],
)
async def test_what_was_changed_after_signing_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed() | changes)


@pytest.mark.parametrize(
    "url",
    [
        "https://sns.eu-west-1.amazonaws.com.evil.example/c.pem",
        "https://evil.example/sns.eu-west-1.amazonaws.com/c.pem",
        "http://sns.eu-west-1.amazonaws.com/c.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/c.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/c.pem",
        "https://s3.eu-west-1.amazonaws.com/c.pem",
        "file:///etc/passwd",
        "",
    ],
)
async def test_certificates_of_others_are_not_fetched(url: str) -> None:
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed(SigningCertURL=url))
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed(Type="SubscriptionConfirmation", Token="t", SubscribeURL=url))


@pytest.mark.parametrize(
    "rest",
    [
        "/?Action=GetEndpointAttributes&EndpointArn=arn&X-Amz-Signature=00",  # a caller's own text
        "/?Action=GetEndpointAttributes&x=/SimpleNotificationService-abc.pem",
        "/SimpleNotificationService-abc.pem?Action=GetEndpointAttributes",
        "/x/SimpleNotificationService-abc.pem",
        "/c.pem",
    ],
)
async def test_what_anybody_may_have_the_hosts_of_sns_answer_is_no_certificate(rest: str) -> None:
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed(SigningCertURL=f"https://sns.eu-west-1.amazonaws.com{rest}"))


@pytest.mark.parametrize("hours", [-25, 25])
async def test_an_old_message_is_a_replay(hours: int) -> None:
    stamp = (NOW + timedelta(hours=hours)).isoformat()
    with pytest.raises(MailsiftError, match="receiver_refused"):
        await asked(signed(Timestamp=stamp))


@pytest.mark.parametrize(("moved", "believed"), [("", True), ("e0", False)])
async def test_of_mailgun_s_token_nothing_can_be_moved_to_the_time(moved: str, believed: bool) -> None:
    now, token = str(int(NOW.timestamp())), "e0c1"
    signature = hmac.new(b"secret", f"{now}{token}".encode(), hashlib.sha256).hexdigest()
    signed = {"timestamp": now + moved, "token": token.removeprefix(moved), "signature": signature}
    posted = ReceivedPost({}, json.dumps({"signature": signed}).encode())
    trust = SenderTrust(b"secret", "", lambda _: pytest.fail("asked"), NOW.timestamp())
    with nullcontext() if believed else pytest.raises(MailsiftError, match="receiver_refused"):
        await verify_post(SenderKind.MAILGUN, posted, trust)


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{}", b'{"TopicArn": 5}', b"\xff", b"[" * 20_000])
@pytest.mark.parametrize("sender", SenderKind)
async def test_rubbish_is_refused_without_asking_anybody(sender: SenderKind, body: bytes) -> None:
    async def fetch(url: str) -> bytes:
        raise AssertionError(url)

    with pytest.raises(MailsiftError, match="receiver_refused"):
        await verify_post(
            sender, ReceivedPost({}, body), SenderTrust(b"secret", TOPIC, fetch, NOW.timestamp())
        )
