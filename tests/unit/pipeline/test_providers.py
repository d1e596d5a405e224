"""Which provider runs an exchanger, and how politely to ask there."""

from __future__ import annotations

from pathlib import Path

import pytest
from publicsuffixlist import PublicSuffixList

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import DEFAULT, PROVIDERS, Provider, Providers, public_suffixes


@pytest.fixture(scope="module")
def providers() -> Providers:
    return Providers.load()


def _load(folder: Path, text: str) -> Providers:
    path = folder / "overrides.toml"
    path.write_text(text, encoding="utf-8")
    return Providers.load(path)


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("aspmx.l.google.com", "google"),
        ("GMAIL-SMTP-IN.L.GOOGLE.COM.", "google"),
        ("hotmail-com.olc.protection.outlook.com", "outlook"),
        ("contoso-com.mail.protection.outlook.com", "microsoft365"),
        ("contoso-com.a-v1.mx.microsoft", "microsoft365"),
        ("mta5.am0.yahoodns.net", "yahoo"),
        ("mx01.mail.icloud.com", "icloud"),
        ("mxa-00.gslb.pphosted.com", "proofpoint"),
        ("eu-smtp-inbound-1.mimecast.com", "mimecast"),
        ("d1.ess.barracudanetworks.com", "barracuda"),
        ("mx1.acme.iphmx.com", "cisco"),
        ("cluster1.eu.messagelabs.com", "messagelabs"),
        ("inbound-smtp.eu-west-1.amazonaws.com", "workmail"),
        ("mx00.kundenserver.de", "ionos"),
        ("mxs.mail.ru", "mailru"),
        ("mx1.mail.ovh.net", "ovh"),
        ("mx0.163.com", "netease"),
        ("notgoogle.com", "notgoogle.com"),
        ("google.com.acme.test", "acme.test"),
        ("mx1.mail.acme.co.uk", "acme.co.uk"),
        ("mx.acme.test", "acme.test"),
        ("co.uk", "co.uk"),
        ("192.0.2.1", "192.0.2.1"),
        ("localhost", "localhost"),
    ],
)
def test_the_host_name_of_the_exchanger_tells_the_provider(providers: Providers, host: str, key: str) -> None:
    assert providers.key_of([host]) == key


_RULES = [
    "com", "co.uk", "blogspot.com", "*.ck", "!www.ck", "*.kawasaki.jp", "!city.kawasaki.jp", "jp", "unknown",
    "xn--p1ai", "*.compute.amazonaws.com", "s3.amazonaws.com", "in-addr.arpa",
]  # fmt: skip


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.parametrize("below", ["", "a.", "b.a.", "c.b.a.", "."])
def test_the_short_way_to_a_public_suffix_leads_to_the_same(rule: str, below: str) -> None:
    listed = public_suffixes()
    name = below + rule.lstrip("!*").lstrip(".")
    assert listed.suffix_of(name) == (listed.publicsuffix(name) or "")
    assert listed.registrable_of(name) == (listed.privatesuffix(name) or "")


def test_the_best_exchanger_decides_and_no_exchanger_has_no_key(providers: Providers) -> None:
    assert providers.key_of(["mx.acme.test", "aspmx.l.google.com"]) == "acme.test"
    assert providers.key_of([]) == ""


def test_only_yahoo_answers_without_meaning(providers: Providers) -> None:
    assert [row.key for row in PROVIDERS if not row.informative] == ["yahoo"]
    assert not providers.row("yahoo").informative


def test_the_limits_to_start_from_are_polite() -> None:
    for row in (*PROVIDERS, DEFAULT):
        assert row.sessions <= 5
        assert 8 <= row.recipients <= 50
        assert row.rate <= 5
        assert row.burst <= row.recipients * row.sessions
    for key in ("google", "outlook", "microsoft365", "yahoo"):
        assert next(row for row in PROVIDERS if row.key == key).rate <= 2


def test_keys_and_suffixes_stand_once_in_the_table() -> None:
    keys = [row.key for row in PROVIDERS]
    suffixes = [suffix for row in PROVIDERS for suffix in row.suffixes]
    assert len(keys) == len(set(keys))
    assert len(suffixes) == len(set(suffixes))


def test_a_key_outside_the_table_gets_the_default_row_under_its_own_key(providers: Providers) -> None:
    row = providers.row("acme.test")
    assert row.key == "acme.test"
    assert (row.sessions, row.rate, row.recipients) == (DEFAULT.sessions, DEFAULT.rate, DEFAULT.recipients)


def test_an_operator_changes_rows_adds_rows_and_takes_suffixes_over(tmp_path: Path) -> None:
    providers = _load(
        tmp_path,
        """
        [[provider]]
        key = "google"
        rate = 0.5
        [[provider]]
        key = "bigmail"
        suffixes = ["BigMail.test", "mail.ru"]
        informative = false
        [[provider]]
        key = "default"
        sessions = 2
        [[provider]]
        key = "late"
        """,
    )
    assert (providers.row("google").rate, providers.row("google").sessions) == (0.5, 5)
    assert providers.key_of(["alt1.aspmx.l.google.com"]) == "google"
    assert providers.key_of(["mx1.bigmail.test"]) == "bigmail"
    assert providers.key_of(["mxs.mail.ru"]) == "bigmail"
    assert not providers.row("bigmail").informative
    assert providers.row("acme.test").sessions == 2
    assert providers.row("late").sessions == 2


def test_limits_lift_every_row_and_the_default(tmp_path: Path) -> None:
    providers = _load(
        tmp_path, "[limits]\nrate = 1000\nsessions = 50\n[[provider]]\nkey = 'google'\nrate = 1.0"
    )
    for key in ("google", "yahoo", "acme.test"):
        assert (providers.row(key).rate, providers.row(key).sessions) == (1000, 50)
    assert not providers.row("yahoo").informative
    assert providers.row("yahoo").recipients == 20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[provider]]\nrate = 1.0", "needs a `key`"),
        ("[[provider]]\nkey = ''", "needs a `key`"),
        ("[[provider]]\nkey = 'acme mail'", "`key` must be"),
        ("[[provider]]\nkey = 'acme:mail'", "`key` must be"),
        ("[[provider]]\nkey = '*'", "`key` must be"),
        ('[[provider]]\nkey = "x\\u0000"', "`key` must be"),
        ("[[provider]]\nkey = 3", "`key` must be"),
        ("[[provider]]\nkey = 'x'\nspeed = 1", "`speed`"),
        ("[[provider]]\nkey = 'x'\nrate = 0", "`rate` must be"),
        ("[[provider]]\nkey = 'x'\nrate = nan", "`rate` must be"),
        ("[[provider]]\nkey = 'x'\nrate = inf", "`rate` must be"),
        ("[[provider]]\nkey = 'x'\nsessions = true", "`sessions` must be"),
        ("[[provider]]\nkey = 'x'\nsessions = 1.5", "`sessions` must be"),
        ("[[provider]]\nkey = 'x'\nrecipients = 0", "`recipients` must be"),
        ("[[provider]]\nkey = 'x'\nsuffixes = 'a.test'", "`suffixes` must be"),
        ("[[provider]]\nkey = 'x'\ninformative = 1", "`informative` must be"),
        ("[limits]\nkey = 'x'", "`key`"),
        ("[limits]\nburst = -1", "`burst` must be"),
    ],
)
def test_a_mistake_in_a_row_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MailsiftError) as caught:
        _load(tmp_path, text)
    assert caught.value.code == "bad_overrides"
    assert words in caught.value.message


@pytest.mark.parametrize(("rate", "unhurried"), [(300.0, False), (1_000.0, True)])
def test_only_sessions_limit_us_where_those_of_a_server_nearby_do_not_use_up_the_rate(
    rate: float, unhurried: bool
) -> None:
    assert Provider("own", rate=rate, sessions=10, recipients=20).is_unhurried is unhurried


def test_a_key_is_written_as_operators_name_it(tmp_path: Path) -> None:
    mine = _load(
        tmp_path,
        "[[provider]]\nkey = ' ACME '\nsuffixes = ['mx.acme.test']\n[[provider]]\nkey='Google'\nrate=9.0",
    )
    assert mine.key_of(["mx.acme.test"]) == "acme"
    assert mine.row("google").rate == 9.0


def test_no_number_of_domains_or_host_names_gets_round_the_limits_of_one_registrable_domain(
    providers: Providers,
) -> None:
    hosts = [f"{host}.victim.co.uk" for host in ("mx", "mx2", "a.b.c", *(f"r{n}" for n in range(50)))]
    assert {providers.key_of([host]) for host in [*hosts, "victim.co.uk"]} == {"victim.co.uk"}


def test_the_public_suffixes_are_those_of_the_library() -> None:
    parsed = vars(PublicSuffixList())
    assert {name: vars(public_suffixes())[name] for name in parsed} == {**parsed, "accept_unknown": True}
