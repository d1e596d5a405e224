"""Our own mail, handed to a real relay: encrypted where that is offered, no password in the clear."""

from __future__ import annotations

import ssl
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
import trustme
from pydantic import SecretStr, ValidationError
from typing_extensions import override

from mailsift.events.mail import Mailer, SmtpRelay, parse_relay
from mailsift.events.outbox import new_mail
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from tests.support.mail_relay import MailRelay, relaying

NOBODY_TRUSTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading whom the system trusts takes long
USER, PASSWORD = "postmaster@example.com", "p@ss:/word"


class Far(SmtpRelay):
    """A relay that is reached over the network, as far as we know."""

    @property
    @override
    def is_this_machine(self) -> bool:
        return False


def message() -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = "Hello", "us@example.org", "a@example.com, b@example.com"
    made.set_content("Zoë\n", cte="quoted-printable")
    return made


def far(relay: MailRelay, *, user: str = "") -> SmtpRelay:
    return Far("127.0.0.1", relay.port, tls=False, user=user, password=PASSWORD if user else "")


def plainly(relay: SmtpRelay, *, timeout_s: float = 15.0) -> Mailer:
    """Return a mailer for a relay that has no TLS."""
    return Mailer(relay, helo_name="mailsift.test", timeout_s=timeout_s, ssl_context=NOBODY_TRUSTED)


@pytest.fixture
def ours() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The relay's certificate, and the trust in it."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize(
    ("url", "relay"),
    [
        ("smtp://mail.example.com:2525", SmtpRelay("mail.example.com", 2525, tls=False)),
        ("smtp://127.0.0.1", SmtpRelay("127.0.0.1", 25, tls=False)),
        ("smtps://[2001:db8::1]/", SmtpRelay("2001:db8::1", 465, tls=True)),
        (
            "smtps://postmaster%40example.com:p%40ss%3A%2Fword@mail.example.com:465",
            SmtpRelay("mail.example.com", 465, tls=True, user=USER, password=PASSWORD),
        ),
    ],
)
def test_a_relay_is_written_as_a_url(url: str, relay: SmtpRelay) -> None:
    assert parse_relay(url) == relay
    assert Settings(mail_relay=SecretStr(url)).mail_relay == SecretStr(url)
    assert PASSWORD not in repr(relay)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.com:25",
        "http://mail.example.com",
        "smtp://",
        "smtp://user@mail.example.com",
        "smtp://:secret@mail.example.com",
        "smtp://mail.example.com:0",
        "smtp://mail.example.com:99999",
        "smtp://mail.example.com:x",
        "smtp://mail.example.com/inbox",
        "smtp://mail.example.com?tls=no",
        "smtp://[::1",
    ],
)
def test_anything_else_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected smtp://"):
        parse_relay(url)


def test_a_relay_that_is_none_is_a_mistake_of_the_settings_that_tells_no_secret() -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(mail_relay=SecretStr("smtp://user:hunter2@mail.example.com:x"))
    assert "hunter2" not in str(refused.value)


def test_this_machine_is_known() -> None:
    hosts = {"localhost": True, "127.0.0.2": True, "::1": True, "mail.example.com": False, "192.0.2.1": False}
    assert {host: SmtpRelay(host, 25, tls=False).is_this_machine for host in hosts} == hosts


async def test_mail_reaches_every_recipient_in_one_go() -> None:
    async with relaying() as relay:
        await plainly(parse_relay(relay.url)).send(message())
    ((recipients, mail),) = relay.mail
    assert recipients == ["a@example.com", "b@example.com"]
    assert mail.get_content().strip() == "Zoë"
    assert relay.verbs == ["EHLO", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]


async def test_on_the_way_mail_is_encrypted_where_that_is_offered_and_then_the_password_is_said(
    ours: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    server, trust = ours
    async with relaying(starttls=server) as relay:
        mailer = Mailer(far(relay, user=USER), helo_name="mailsift.test", ssl_context=trust)
        await mailer.send(message())
        assert relay.verbs[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]
        assert relay.logins == [(USER, PASSWORD)]
        with pytest.raises(MailsiftError, match="mail_failed"):  # it is not whom the system trusts
            await Mailer(far(relay), helo_name="mailsift.test").send(message())
    assert len(relay.mail) == 1


async def test_mail_is_encrypted_from_the_first_byte(ours: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, trust = ours
    async with relaying(tls=server) as relay:
        target = SmtpRelay("127.0.0.1", relay.port, tls=True, user=USER, password=PASSWORD)
        await Mailer(target, helo_name="mailsift.test", ssl_context=trust).send(message())
    assert (len(relay.mail), relay.logins) == (1, [(USER, PASSWORD)])


async def test_a_password_is_not_said_in_the_clear() -> None:
    async with relaying() as relay:
        with pytest.raises(MailsiftError, match="mail_failed"):
            await plainly(far(relay, user=USER)).send(message())
        assert (relay.logins, relay.mail) == ([], [])
        await plainly(far(relay)).send(message())
    assert len(relay.mail) == 1


@pytest.mark.parametrize("verb", ["CONNECT", "EHLO", "MAIL", "DATA"])
async def test_a_relay_that_does_not_want_it_is_told_without_an_address(verb: str) -> None:
    async with relaying() as relay:
        relay.replies = {verb: "554 a@example.com is not welcome", "HELO": "554 a@example.com"}
        with pytest.raises(MailsiftError, match="mail_failed") as failed:
            await plainly(parse_relay(relay.url)).send(message())
    assert (failed.value.retryable, relay.mail) == (True, [])
    assert "@" not in failed.value.message


@pytest.mark.parametrize("farewell", ["421 4.4.2 timeout", "250 ok", "bye", "221 " + "x" * 10_000])
async def test_what_the_relay_has_taken_is_sent_whatever_it_says_to_quit(farewell: str) -> None:
    async with relaying() as relay:
        relay.replies = {"QUIT": farewell}
        await plainly(parse_relay(relay.url)).send(message())
    assert (len(relay.mail), relay.verbs[-1]) == (1, "QUIT")


async def test_one_recipient_that_is_taken_is_enough_and_none_is_not() -> None:
    async with relaying() as relay:
        relay.refused = {"a@example.com"}
        mailer = plainly(parse_relay(relay.url))
        await mailer.send(message())
        relay.refused = {"a@example.com", "b@example.com"}
        with pytest.raises(MailsiftError, match="mail_failed") as failed:
            await mailer.send(message())
    assert [recipients for recipients, _ in relay.mail] == [["b@example.com"]]
    assert "@" not in failed.value.message


async def test_an_address_that_the_relay_cannot_take_keeps_the_mail_from_no_other() -> None:
    made = message()
    made.replace_header("To", "zoë@example.com, a@example.com")
    async with relaying() as relay:
        mailer = plainly(parse_relay(relay.url))
        await mailer.send(made)
        made.replace_header("To", "zoë@example.com")
        with pytest.raises(MailsiftError, match="mail_failed"):
            await mailer.send(made)
    ((recipients, mail),) = relay.mail
    assert (recipients, mail["To"]) == (["a@example.com"], "a@example.com")


@pytest.mark.parametrize(
    "address", ['".a"@example.com', '"a."@example.com', '"a..b"@docomo.ne.jp', '"a,b"@x.test']
)
@pytest.mark.parametrize("beside", [[], ["zoë@example.com"]])
async def test_an_address_in_quotes_is_asked_for_in_quotes(address: str, beside: list[str]) -> None:
    mail = new_mail(subject="s", sender="us@x.test", recipients=[*beside, address], name="1", now=0.0)
    async with relaying() as relay:
        await plainly(parse_relay(relay.url)).send(mail)
    ((recipients, _),) = relay.mail
    assert recipients == [address]


@pytest.mark.parametrize(
    "address",
    [
        "=?utf-8?q?victim=40example.com=2c?=@x.test",  # decoded, another's address
        "=?utf-8?q?=0abcc=3ayou=40x.test?=@x.test",  # decoded, no header, and nobody gets the mail
        '"=?utf-8?q?a b?="@x.test',
    ],
)
@pytest.mark.parametrize("beside", [[], ["zoë@example.com"]])
async def test_an_address_is_no_encoded_word(address: str, beside: list[str]) -> None:
    mail = new_mail(subject="s", sender="us@x.test", recipients=[*beside, address], name="1", now=0.0)
    async with relaying() as relay:
        await plainly(parse_relay(relay.url)).send(mail)
    ((recipients, data),) = relay.mail
    assert recipients == [address]
    assert "victim@" not in str(data)


async def test_a_relay_that_is_not_there_or_says_nothing_is_a_failure() -> None:
    async with relaying() as relay:
        gone, relay.silent = parse_relay(relay.url), True
        with pytest.raises(MailsiftError, match="mail_failed"):
            await plainly(gone, timeout_s=0.1).send(message())
    with pytest.raises(MailsiftError, match="mail_failed"):
        await plainly(gone).send(message())


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("=?utf-8?q?a=0d=0aBcc:_evil@example.com?= b", "= ?utf-8?q?a=0d=0aBcc:_evil@example.com?= b"),
        ("=?utf-8?q?=0a=0aBody?=", "= ?utf-8?q?=0a=0aBody?="),
        ("a\r\nBcc: evil@example.com\u2028b\x85c\ud800d", "a Bcc: evil@example.com b c d"),
        ("Zoë 你好 😀", "Zoë 你好 😀"),
    ],
)
def test_whatever_a_list_is_called_it_is_one_line_of_the_head(named: str, expected: str) -> None:
    mail = new_mail(subject=named, sender="us@x.test", recipients=["you@x.test"], name="1", now=0.0)
    read = message_from_bytes(mail.as_bytes(), policy=policy.default)
    assert read["Subject"] == expected
    assert read.keys() == mail.keys()
    assert read.get_content().strip() == ""
