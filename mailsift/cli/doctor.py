"""`mailsift doctor`: what must be true outside this program for its answers to mean something."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import aiodns
import dns.reversename
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mailsift.cli.options import JsonOption
from mailsift.container import open_container, read_sources
from mailsift.key_files import open_vault, read_key_peppers
from mailsift.pipeline.dns.client import in_words_of_cares
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Known
from mailsift.pipeline.probe.config import Source, default_addresses
from mailsift.runtime.embedded import installation
from mailsift.settings import Settings
from mailsift.storage.database import DatabaseError, sentence_of
from mailsift.storage.redis.connection import WRITABLE_KEY, ClientError, words_of
from mailsift.storage.schema import current_revision, newest_revision, serves, takes_nothing

_SECONDS = 5.0


class Health(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"  # works, but answers will be worse
    FAILED = "failed"


_MARKS = {Health.OK: "[green]ok[/]", Health.WARNING: "[yellow]warning[/]", Health.FAILED: "[red]failed[/]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, how it is, and what to do about it."""

    name: str
    health: Health
    detail: str


Judgement = tuple[Health, str]
"""How what was looked at is, and what to do about it."""
Check = Callable[[Settings], Awaitable[Judgement]]


def doctor(*, as_json: JsonOption = False) -> None:
    """Check the surroundings: port 25, resolver, reverse DNS, database, Redis, blobs, keys.

    The exit status is 1 when a check failed.
    """
    settings = Settings.from_env()
    try:
        with installation(settings) as found:
            findings = uvloop.run(examine(found))
    except MailsiftError as error:  # the embedded servers do not start; everything else can be looked at
        findings = uvloop.run(examine(settings, error))
    if as_json:
        print(json.dumps([asdict(one) for one in findings]))  # noqa: T201 - the command's output
    else:
        _print_table(findings)
    if any(finding.health is Health.FAILED for finding in findings):
        sys.exit(1)


def _print_table(findings: list[Finding]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(finding.name, _MARKS[finding.health], escape(finding.detail))
    Console().print(table)


async def examine(settings: Settings, servers_error: MailsiftError | None = None) -> list[Finding]:
    """Run every check side by side; a check that breaks is a failed finding, not an error.

    `servers_error` says why an address is not set: the embedded server that it would be of does not start.
    """
    unasked: dict[Check, bool] = {_settings: not Settings.mistyped(), _proxies: not _has_proxy(settings)}
    checks = {name: check for name, check in CHECKS.items() if not unasked.get(check)}
    if servers_error is not None:
        without_address = {"database": settings.database_url, "redis": settings.redis_url}
        checks.update({name: _failing(servers_error) for name, url in without_address.items() if url is None})
    return list(await asyncio.gather(*(_guarded(name, check, settings) for name, check in checks.items())))


def _failing(error: MailsiftError) -> Check:
    async def check(_: Settings) -> Judgement:
        raise error

    return check


async def _guarded(name: str, check: Check, settings: Settings) -> Finding:
    try:
        async with asyncio.timeout(4 * _SECONDS):
            return Finding(name, *await check(settings))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are worth knowing
        return Finding(name, Health.FAILED, _in_words(error))


def _in_words(error: Exception) -> str:
    """Say what went wrong, without words of others that may hold a secret."""
    match error:
        case MailsiftError():
            return f"{error.code}: {sentence_of(error)}"
        case aiodns.error.DNSError():
            return f"{error.args[1]}."  # of the library's table
        case TimeoutError() | DatabaseError():
            return f"No answer ({type(error).__name__})."
        case ClientError():
            return words_of(error)
        case OSError(strerror=str(text)):
            return f"{text}."
        case _:
            return f"The check broke ({type(error).__name__})."


async def _settings(_: Settings) -> Judgement:
    sentences = [f"{name} is none; did you mean {meant}?" for name, meant in Settings.mistyped().items()]
    return Health.WARNING, " ".join(sentences)


async def _database(settings: Settings) -> Judgement:
    async with open_container(settings) as container, container.database.begin() as connection:
        read_only, current = await takes_nothing(connection), await current_revision(connection)
    if read_only:
        return Health.FAILED, "PostgreSQL answers, but takes nothing: is it a standby?"
    if not serves(current):
        detail = (
            f"Schema {current or 'missing'}, this release needs {newest_revision()}: run mailsift migrate."
        )
        return Health.FAILED, detail
    return Health.OK, f"PostgreSQL answers, schema {current}."


async def _redis(settings: Settings) -> Judgement:
    async with open_container(settings) as container:
        await container.redis.set(WRITABLE_KEY, 1, px=1_000)
        policy = (await container.redis.info("memory")).get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return Health.WARNING, f"maxmemory-policy is {policy}; set it to noeviction."
    return Health.OK, "Redis or Valkey takes and gives back."


async def _blobs(settings: Settings) -> Judgement:
    async with open_container(settings) as container:
        key = f"doctor/{uuid4()}"
        await container.blobs.put_bytes(key, b"ok")
        await container.blobs.delete(key)
    return Health.OK, "The blob store takes and gives back."


async def _keys(settings: Settings) -> Judgement:
    read_key_peppers(settings)
    open_vault(settings)
    return Health.OK, "Secrets can be sealed, API keys told apart."


DISTRUSTED = (
    "No resolver can be trusted: it knows names nobody has, or denies names everybody knows "
    "(MAILSIFT_DNS_CANARIES). Until one can, no address becomes valid or invalid by DNS."
)
"""What people are told of resolvers that lie."""


async def _resolver(settings: Settings) -> Judgement:
    """Look at each resolver: work goes on with those that can be trusted, and nothing shows the others."""
    faults = await _resolver_faults(settings)
    sound = [server for server, why in faults.items() if not why]
    name = settings.preflight_domains[0]
    async with _dns(sound or settings.dns_servers) as resolver:
        exchangers = await _existing_records(resolver, name, "MX")
    if not sound:
        return Health.FAILED, DISTRUSTED
    if len(sound) < len(faults):
        sentences = [f"{server}: {why}." for server, why in faults.items() if why]
        if settings.dns_canaries:  # without them all are asked
            sentences.append(f"Only {' and '.join(sound)} {'is' if len(sound) == 1 else 'are'} asked.")
        return Health.WARNING, " ".join(sentences)
    if not exchangers:
        return Health.WARNING, f"{name} has no MX (MAILSIFT_PREFLIGHT_DOMAINS)."
    return Health.OK, f"{name} has {len(exchangers)} MX."


async def _resolver_faults(settings: Settings) -> dict[str, str]:
    """Return of each resolver why it is not believed, or that it is silent; "" for those that are well."""
    async with open_container(settings) as container:
        faults = await container.domains.trust.examine_all()
    if not settings.dns_canaries:  # nobody has asked them anything
        faults = dict(
            zip(faults, await asyncio.gather(*(_silence(settings, one) for one in faults)), strict=True)
        )
    return faults


async def _silence(settings: Settings, server: str) -> str:
    async with _dns([server]) as resolver:
        try:
            await _existing_records(resolver, settings.preflight_domains[0], "MX")
        except aiodns.error.DNSError:
            return "it does not answer"
    return ""


async def _sound_resolvers(settings: Settings) -> Sequence[str]:
    """Return those that can be trusted; when there are none, all: another finding tells of that."""
    faults = await _resolver_faults(settings)
    return [server for server, why in faults.items() if not why] or settings.dns_servers


async def _port_25(settings: Settings) -> Judgement:
    """Try to reach mail servers that are known to be there."""
    async with open_container(settings) as container:
        health, detail = _PORT_25[await (await container.port25_probe()).probe()]
    return health, f"{detail} (Asked: {', '.join(settings.preflight_domains)}.)"


_PORT_25 = {
    Known.YES: (Health.OK, "Mail servers can be reached."),
    Known.NO: (Health.FAILED, "No mail server can be reached; ask your provider to open outbound port 25."),
    Known.UNKNOWN: (Health.WARNING, "There was no mail server to try: is DNS all right?"),
}


def _has_proxy(settings: Settings) -> bool:
    return any("://" in source for source in settings.source_addresses)


async def _proxies(settings: Settings) -> Judgement:
    """Try whether each SOCKS5 proxy answers, lets us in and reaches mail servers."""
    proxies = [source for source in read_sources(settings) if source.proxy]
    problems = [
        text for text in await asyncio.gather(*(_problem_of(settings, one) for one in proxies)) if text
    ]
    if problems:
        return Health.FAILED, " ".join(problems)
    names = ", ".join(proxy.label for proxy in proxies)
    return Health.OK, f"Mail servers can be reached through {names}."


async def _problem_of(settings: Settings, proxy: Source) -> str:
    """Return what is wrong with a proxy, without its credentials; "" when nothing is."""
    where = urlsplit(proxy.proxy)
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.close()
    except OSError:  # TimeoutError is one
        return f"{proxy.label} cannot be reached."
    async with open_container(settings) as container:
        port25 = replace(await container.port25_probe(), sources=[proxy])
        if await port25.probe() is Known.NO:
            return f"{proxy.label} answers, but no mail server can be reached through it."
    return ""


async def _reverse_name(settings: Settings) -> Judgement:
    """RFC 1912 section 2.1: the address we probe from should have a name that leads back to it."""
    named = _seen_addresses(settings)
    if not named and _has_proxy(settings):
        return Health.OK, "Unknown: only a proxy knows the address it asks from."
    if not named:
        return Health.FAILED, "No route leads out of this machine."
    inside = [one for one in named if not ipaddress.ip_address(one).is_global]
    if inside and not settings.allow_non_public:
        detail = (
            f"{', '.join(inside)}: not public. Name the address the world sees in MAILSIFT_SOURCE_IDENTITIES."
        )
        return Health.WARNING, detail
    async with _dns(await _sound_resolvers(settings)) as resolver:
        problems = [
            where for where, helo in named.items() if not await _forward_confirmed(resolver, where, helo)
        ]
    if problems:
        detail = (
            f"{', '.join(problems)}: no reverse name that leads back to it and equals MAILSIFT_HELO_NAME."
        )
        return Health.WARNING, f"{detail} Many servers refuse such clients."
    names = ", ".join(sorted(set(named.values())))
    return Health.OK, f"{names} is forward-confirmed."


def _seen_addresses(settings: Settings) -> dict[str, str]:
    """Return the addresses that mail servers see us come from, with the names we have there.

    A source's is the one the operator says the world sees (SOURCE_IDENTITIES), else our own; of a proxy's
    only the former is known.
    """
    seen = {}
    for source in read_sources(settings):
        address = source.bind or ("" if source.proxy else next(iter(default_addresses()), ""))
        with suppress(ValueError):  # it may be a name instead
            address = str(ipaddress.ip_address(source.identity))
        if address:
            seen[address] = source.helo_name or settings.greeting()
    return seen


async def _forward_confirmed(resolver: aiodns.DNSResolver, source: str, helo: str) -> bool:
    address = ipaddress.ip_address(source)
    try:
        pointers = await _records(resolver, dns.reversename.from_address(source).to_text(), "PTR")
        names = {pointer.dname.rstrip(".").lower() for pointer in pointers}
        if helo.lower() not in names:
            return False
        hosts = await _records(resolver, helo, "AAAA" if address.version == 6 else "A")
    except aiodns.error.DNSError:
        return False
    return address in {ipaddress.ip_address(host.addr) for host in hosts}


NULL_SENDER = (
    "Probes have the null sender <>, which is how call-outs are told, and block lists name who makes "
    "them. With a domain of your own, set MAILSIFT_MAIL_FROM to a mailbox there that is read, and publish "
    "SPF for it."
)
"""What people are told who have not set a sender."""


async def _sender(settings: Settings) -> Judgement:
    """Look at the sender as mail servers do: does its domain take mail, and allow us to send (RFC 7208)?"""
    domain = settings.mail_from.rpartition("@")[2]
    if not domain:
        return Health.WARNING, NULL_SENDER
    addresses = list(_seen_addresses(settings))
    async with _dns(await _sound_resolvers(settings)) as resolver:
        texts = await _existing_records(resolver, domain, "TXT")
        takes_mail = await _takes_mail(resolver, domain)
    problems = [] if takes_mail else [f"{domain} takes no mail, so that servers cannot verify the sender."]
    if problem := spf_problem(
        domain, [bytes(text.data).decode("ascii", "replace") for text in texts], addresses
    ):
        problems.append(problem)
    if problems:
        return Health.WARNING, " ".join(problems)
    return Health.OK, f"{domain} takes mail and has SPF for the addresses we probe from."


async def _takes_mail(resolver: aiodns.DNSResolver, domain: str) -> bool:
    """RFC 5321 section 5.1; RFC 7505: an MX that is the root says that there is none."""
    if exchangers := await _existing_records(resolver, domain, "MX"):
        return any(one.exchange.rstrip(".") for one in exchangers)
    return any([await _existing_records(resolver, domain, kind) for kind in ("A", "AAAA")])


def spf_problem(domain: str, texts: Sequence[str], addresses: Sequence[str]) -> str:
    """Return what is wrong with a domain's SPF (RFC 7208) for these addresses, "" when nothing is seen.

    Only addresses that stand in the record itself are compared; one that speaks of other names or records is
    given the benefit of the doubt.
    """
    records = [text.lower().split()[1:] for text in texts if text.lower().split()[:1] == ["v=spf1"]]
    if len(records) != 1:
        return f"{domain} has {'several SPF records' if records else 'no SPF record'}; publish one."
    (terms,) = records
    literal = [term.lstrip("+") for term in terms if term.lstrip("+").startswith(("ip4:", "ip6:"))]
    if any(term.lstrip("+-~?") != "all" and term.lstrip("+") not in literal for term in terms):
        return ""
    try:
        networks = [ipaddress.ip_network(term.partition(":")[2], strict=False) for term in literal]
    except ValueError:
        return f"The SPF record of {domain} has an address that is none."
    missing = [one for one in addresses if not any(ipaddress.ip_address(one) in net for net in networks)]
    return f"The SPF record of {domain} does not name {', '.join(missing)}." if missing else ""


async def _existing_records(resolver: aiodns.DNSResolver, name: str, kind: str) -> list[Any]:
    """Return the records there are; none where DNS denies them."""
    try:
        return await _records(resolver, name, kind)
    except aiodns.error.DNSError as error:
        if error.args[0] in {aiodns.error.ARES_ENODATA, aiodns.error.ARES_ENOTFOUND}:
            return []
        raise


async def _records(resolver: aiodns.DNSResolver, name: str, kind: str) -> list[Any]:
    return [record.data for record in (await resolver.query_dns(name, kind)).answer]


def _dns(servers: Sequence[str]) -> aiodns.DNSResolver:
    """Return what asks these resolvers; () stands for those of the system."""
    named = [in_words_of_cares(server) for server in servers]
    return aiodns.DNSResolver(nameservers=named or None, timeout=_SECONDS / 2, tries=2)


CHECKS: dict[str, Check] = {
    "settings": _settings,
    "database": _database,
    "redis": _redis,
    "blobs": _blobs,
    "keys": _keys,
    "resolver": _resolver,
    "port 25": _port_25,
    "proxies": _proxies,
    "reverse name": _reverse_name,
    "sender": _sender,
}
