"""What must be true outside this program for its answers to mean something; each check says so plainly."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import uuid4

import aiodns
import dns.reversename

from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, open_lookout, open_redis
from pipeline.errors import MailsiftError
from pipeline.facts import Known
from storage.database import DatabaseError
from storage.redis import ClientError
from storage.schema import current_revision, newest_revision, serves

_SECONDS = 5.0


class Health(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"  # works, but answers will be worse
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, how it is, and what to do about it."""

    name: str
    health: Health
    detail: str


Check = Callable[[Settings], Awaitable[Finding]]


async def examine(settings: Settings) -> list[Finding]:
    """Run every check side by side; a check that breaks is a failed finding, not an error."""
    return list(await asyncio.gather(*(_guarded(name, check, settings) for name, check in CHECKS.items())))


async def _guarded(name: str, check: Check, settings: Settings) -> Finding:
    try:
        async with asyncio.timeout(4 * _SECONDS):
            return await check(settings)
    except MailsiftError as error:
        return Finding(name, Health.FAILED, f"{error.code}: {error.message}")
    except (OSError, DatabaseError, ClientError, aiodns.error.DNSError) as error:
        return Finding(name, Health.FAILED, f"No answer ({type(error).__name__}).")


async def _database(settings: Settings) -> Finding:
    database = open_database(settings)
    try:
        async with database.begin() as connection:
            current = await current_revision(connection)
    finally:
        await database.aclose()
    if not serves(current):
        detail = (
            f"Schema {current or 'missing'}, this release needs {newest_revision()}: run mailsift migrate."
        )
        return Finding("database", Health.FAILED, detail)
    return Finding("database", Health.OK, f"PostgreSQL answers, schema {current}.")


async def _redis(settings: Settings) -> Finding:
    redis = open_redis(settings)
    try:
        await redis.ping()
        policy = (await redis.config_get("maxmemory-policy")).get("maxmemory-policy", "noeviction")
    finally:
        await redis.aclose()
    if policy != "noeviction":
        return Finding("redis", Health.WARNING, f"maxmemory-policy is {policy}; set it to noeviction.")
    return Finding("redis", Health.OK, "Redis or Valkey answers.")


async def _blobs(settings: Settings) -> Finding:
    blobs, key = open_blobs(settings), f"doctor/{uuid4()}"
    await blobs.put_bytes(key, b"ok")
    await blobs.delete(key)
    return Finding("blobs", Health.OK, "The blob store takes and gives back.")


async def _resolver(settings: Settings) -> Finding:
    name = settings.preflight_domains[0]
    async with _dns(settings) as resolver:
        exchangers = await _records(resolver, name, "MX")
    return Finding("resolver", Health.OK, f"{name} has {len(exchangers)} MX.")


async def port_25(settings: Settings) -> Finding:
    """Try to reach mail servers that are known to be there."""
    async with open_lookout(settings) as lookout:
        health, detail = _PORT_25[await lookout.look()]
    return Finding("port 25", health, f"{detail} (Asked: {', '.join(settings.preflight_domains)}.)")


_PORT_25 = {
    Known.YES: (Health.OK, "Mail servers can be reached."),
    Known.NO: (Health.FAILED, "No mail server can be reached; ask your provider to open outbound port 25."),
    Known.UNKNOWN: (Health.WARNING, "There was no mail server to try: is DNS all right?"),
}


async def _reverse_name(settings: Settings) -> Finding:
    """RFC 1912 section 2.1: the address we probe from should have a name that leads back to it."""
    sources = settings.source_addresses or (_default_source(),)
    async with _dns(settings) as resolver:
        problems = [
            source for source in sources if not await _forward_confirmed(resolver, source, settings.helo_name)
        ]
    if problems:
        detail = f"{', '.join(problems)}: no reverse name that leads back to it and equals HELO_NAME."
        return Finding("reverse name", Health.WARNING, f"{detail} Many servers refuse such clients.")
    return Finding("reverse name", Health.OK, f"{settings.helo_name} is forward-confirmed.")


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


def _default_source() -> str:
    """Return the address the default route would use; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # TEST-NET-1, RFC 5737
        return str(probe.getsockname()[0])


async def _records(resolver: aiodns.DNSResolver, name: str, kind: str) -> list[Any]:
    return [record.data for record in (await resolver.query_dns(name, kind)).answer]


def _dns(settings: Settings) -> aiodns.DNSResolver:
    return aiodns.DNSResolver(nameservers=settings.dns_servers or None, timeout=_SECONDS / 2, tries=2)


CHECKS: dict[str, Check] = {
    "database": _database,
    "redis": _redis,
    "blobs": _blobs,
    "resolver": _resolver,
    "port 25": port_25,
    "reverse name": _reverse_name,
}
