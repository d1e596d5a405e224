"""The doctor examines a proxy as what it is, and never prints how one signs in there."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from mailsift.cli.doctor import DISTRUSTED, NULL_SENDER, Finding, Health, examine, spf_problem
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.probe import config
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.redis.connection import connect
from tests.support.liar import Liar
from tests.support.ports import free_port
from tests.support.servers import RedisServer
from tests.support.socks_proxy import socks5


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env)


async def findings(settings: Settings, *sources: str) -> dict[str, Finding]:
    found = await examine(settings.model_copy(update={"source_addresses": sources}))
    assert "secret" not in repr(found)
    return {one.name: one for one in found}


async def test_without_a_proxy_there_is_none_to_examine(settings: Settings) -> None:
    found = await findings(settings)
    assert "proxies" not in found
    assert found["port 25"].health is Health.OK


async def test_a_proxy_that_reaches_mail_servers_is_well(settings: Settings) -> None:
    seen: list[tuple[str, int]] = []
    async with socks5(seen) as proxy:
        found = await findings(settings, f"socks5://me:secret@127.0.0.1:{proxy} as mx.example.org")
    assert found["proxies"] == Finding(
        "proxies", Health.OK, f"Mail servers can be reached through socks5://127.0.0.1:{proxy}."
    )
    assert {port for _, port in seen} == {settings.smtp_port}
    assert found["port 25"].health is found["reverse name"].health is Health.OK


async def test_a_proxy_that_reaches_no_mail_server_is_told_from_one_that_is_away(settings: Settings) -> None:
    away = free_port()
    async with socks5([], refuse=True) as proxy:
        found = await findings(
            settings, f"socks5://me:secret@127.0.0.1:{proxy}", f"socks5://me:secret@127.0.0.1:{away}"
        )
    assert found["proxies"] == Finding(
        "proxies",
        Health.FAILED,
        f"socks5://127.0.0.1:{proxy} answers, but no mail server can be reached through it. "
        f"socks5://127.0.0.1:{away} cannot be reached.",
    )


async def test_a_source_with_a_name_of_its_own_is_examined_by_that_name(settings: Settings) -> None:
    found = await findings(settings, "127.0.0.1 as nobody.example.org", "socks5://me:secret@127.0.0.1:9")
    assert found["reverse name"].health is Health.WARNING
    assert found["reverse name"].detail.startswith("127.0.0.1: no reverse name")


async def test_the_address_that_the_world_sees_is_examined(settings: Settings) -> None:
    known = settings.model_copy(
        update={"source_identities": ("127.0.0.2=127.0.0.1",), "mail_from": "probe@ordinary.sandbox.test"}
    )
    found = await findings(known, "127.0.0.2 as probe.sandbox.test")
    assert found["reverse name"].health is Health.OK
    other = known.model_copy(update={"source_identities": ("203.0.113.9",)})
    for source in ("", "127.0.0.1", "socks5://me:secret@127.0.0.1:9"):
        found = await findings(other, source)
        assert found["reverse name"].detail.startswith("203.0.113.9: no reverse name")
    public = other.model_copy(update={"allow_non_public": False, "source_identities": ("10.0.0.5",)})
    assert (await findings(public, ""))["reverse name"].detail == (
        "10.0.0.5: not public. Name the address the world sees in MAILSIFT_SOURCE_IDENTITIES."
    )


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ([("::1", socket.AF_INET6)], "::1: no reverse name"),
        ([], "No route leads out of this machine."),
    ],
    ids=["IPv6 only", "no network"],
)
async def test_a_machine_without_ipv4_is_examined_too(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, routes: list[tuple[str, int]], expected: str
) -> None:
    monkeypatch.setattr(config, "ROUTES", routes)
    found = await findings(settings.model_copy(update={"mail_from": "probe@ordinary.sandbox.test"}), "")
    assert found["reverse name"].detail.startswith(expected)
    assert found["sender"].health is Health.WARNING


async def test_a_source_that_is_none_is_said_without_its_words(settings: Settings) -> None:
    found = await findings(settings, "socks4://me:secret@127.0.0.1:9")
    assert found["proxies"].detail.startswith("bad_source: ")
    assert found["reverse name"].detail.startswith("bad_source: ")


async def test_a_resolver_that_does_not_know_what_everybody_knows_is_not_trusted(settings: Settings) -> None:
    found = await findings(settings)
    assert found["resolver"].health is Health.OK
    found = await findings(settings.model_copy(update={"dns_canaries": ("nobody-knows-me.test",)}))
    assert found["resolver"] == Finding("resolver", Health.FAILED, DISTRUSTED)


@pytest.mark.parametrize("silent", [False, True], ids=["lies", "silent"])
async def test_a_resolver_that_is_not_asked_is_told_of_though_another_is_right(
    settings: Settings, silent: bool
) -> None:
    (right,) = settings.dns_servers
    liar = Liar(right)
    liar.silent = silent
    try:
        found = await findings(settings.model_copy(update={"dns_servers": (liar.server, right)}))
    finally:
        liar.close()
    assert found["resolver"].health is Health.WARNING
    assert f"{liar.server}: " in found["resolver"].detail
    assert f"{right}: " not in found["resolver"].detail


async def test_what_a_resolver_says_that_is_not_trusted_is_said_by_no_other_check(settings: Settings) -> None:
    (right,) = settings.dns_servers
    liar = Liar(right)
    try:
        asked = {"dns_servers": (liar.server, right), "mail_from": "probe@ordinary.sandbox.test"}
        found = await findings(settings.model_copy(update=asked), "127.0.0.1 as probe.sandbox.test")
    finally:
        liar.close()
    assert found["reverse name"].health is Health.OK
    assert found["sender"].detail == "ordinary.sandbox.test has no SPF record; publish one."


async def test_without_canaries_a_resolver_that_answers_nothing_is_told_of(settings: Settings) -> None:
    (right,), gone = settings.dns_servers, f"127.0.0.1:{free_port()}"
    asked = {"dns_servers": (right, gone), "dns_canaries": ()}
    found = await findings(settings.model_copy(update=asked))
    assert found["resolver"] == Finding("resolver", Health.WARNING, f"{gone}: it does not answer.")


async def test_a_redis_that_takes_nothing_is_not_well(settings: Settings, redis_server: RedisServer) -> None:
    own = settings.model_copy(update={"redis_url": SecretStr(redis_server.url)})
    assert (await findings(own))["redis"].health is Health.OK
    async with connect(redis_server.url, timeout=20.0) as redis:
        await redis.config_set("maxmemory", 1)
    assert (await findings(own))["redis"].health is Health.FAILED


async def test_a_database_that_takes_nothing_is_not_well(settings: Settings) -> None:
    assert settings.database_url is not None
    url = make_url(settings.database_url.get_secret_value())
    standby = url.update_query_dict({"options": "-csearch_path=public -cdefault_transaction_read_only=on"})
    own = {"database_url": SecretStr(standby.render_as_string(hide_password=False))}
    assert (await findings(settings.model_copy(update=own)))["database"] == Finding(
        "database", Health.FAILED, "PostgreSQL answers, but takes nothing: is it a standby?"
    )


async def test_the_sender_is_looked_at_as_mail_servers_do(settings: Settings) -> None:
    found = await findings(settings.model_copy(update={"mail_from": ""}))
    assert found["sender"] == Finding("sender", Health.WARNING, NULL_SENDER)
    found = await findings(settings.model_copy(update={"mail_from": "probe@ordinary.sandbox.test"}))
    assert found["sender"].detail == "ordinary.sandbox.test has no SPF record; publish one."
    found = await findings(settings.model_copy(update={"mail_from": "probe@no-mail.sandbox.test"}))
    for domain in ("no-mail", "null-mx"):
        found = await findings(settings.model_copy(update={"mail_from": f"probe@{domain}.sandbox.test"}))
        assert found["sender"].detail.startswith(f"{domain}.sandbox.test takes no mail")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["v=spf1 ip4:203.0.113.0/24 -all", "google-site-verification=x"], ""),
        (["v=spf1 include:_spf.example.net -all"], ""),
        (["v=spf1 mx ~all"], ""),
        (["v=spf1 ip4:198.51.100.1 -all"], "The SPF record of a.example does not name 203.0.113.9."),
        (["v=spf1 -ip4:203.0.113.9 ip6:2001:db8::/32 -all"], ""),
        (["v=spf1 -all"], "The SPF record of a.example does not name 203.0.113.9."),
        (["v=spf1 -all", "v=spf1 mx -all"], "a.example has several SPF records; publish one."),
        (["v=spf1 ip4:300.1.1.1 -all"], "The SPF record of a.example has an address that is none."),
        ([], "a.example has no SPF record; publish one."),
    ],
)
def test_an_spf_record_names_the_addresses_we_probe_from_or_leaves_it_to_others(
    texts: list[str], problem: str
) -> None:
    assert spf_problem("a.example", texts, ["203.0.113.9"]) == problem


async def test_a_check_that_breaks_costs_the_others_nothing(settings: Settings) -> None:
    settings.home.joinpath("pepper").write_bytes(b"\xff")  # of no use, and nobody expects it
    found = await findings(settings)
    assert found["keys"] == Finding("keys", Health.FAILED, "The check broke (UnicodeDecodeError).")
    assert found["database"].health is found["resolver"].health is Health.OK


async def test_what_needs_no_server_is_looked_at_though_the_embedded_ones_do_not_start(
    settings: Settings,
) -> None:
    error = MailsiftError("embedded_failed", "postgres doesn’t start.")
    found = {
        one.name: one for one in await examine(settings.model_copy(update={"database_url": None}), error)
    }
    assert found["database"] == Finding("database", Health.FAILED, "embedded_failed: postgres doesn’t start.")
    assert found["redis"].health is found["resolver"].health is found["port 25"].health is Health.OK


async def test_a_resolver_that_denies_what_it_is_asked_for_has_answered(settings: Settings) -> None:
    unknown = settings.model_copy(update={"preflight_domains": ("nobody-knows-me.test",)})
    found = await findings(unknown)
    assert found["resolver"] == Finding(
        "resolver", Health.WARNING, "nobody-knows-me.test has no MX (MAILSIFT_PREFLIGHT_DOMAINS)."
    )
    found = await findings(unknown.model_copy(update={"dns_canaries": ("nobody-knows-me.test",)}))
    assert found["resolver"] == Finding("resolver", Health.FAILED, DISTRUSTED)
    found = await findings(settings.model_copy(update={"dns_servers": (f"127.0.0.1:{free_port()}",)}))
    assert found["resolver"] == Finding("resolver", Health.FAILED, "Could not contact DNS servers.")


@pytest.mark.parametrize(
    ("command", "name", "detail"),
    [
        (
            "ACL SETUSER us on >secret ~ms:* +@all -@admin +info",
            "us",
            "Redis or Valkey takes and gives back.",
        ),
        ("ACL SETUSER us on >secret ~ms:* +ping", "us", "Our user may not do here what it must (ACL)."),
        ("PING", "nobody", "It does not take our name or password."),
        (
            "REPLICAOF 127.0.0.1 1",
            "default",
            "It is a replica, which takes nothing: MAILSIFT_REDIS_URL must name the primary.",
        ),
    ],
)
async def test_what_redis_answers_is_not_taken_for_no_answer(
    settings: Settings, redis_server: RedisServer, command: str, name: str, detail: str
) -> None:
    async with connect(redis_server.url, timeout=20.0) as redis:
        await redis.execute_command(*command.split())  # type: ignore[no-untyped-call]
    url = redis_server.url.replace("://", f"://{name}:secret@", 1) if name != "default" else redis_server.url
    found = await findings(settings.model_copy(update={"redis_url": SecretStr(url)}))
    assert found["redis"].detail == detail
