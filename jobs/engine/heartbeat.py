"""How a process is: the heartbeat by which it reports itself and learns whether it may claim.

And what it sees of what it depends on: the way out, resolvers, its disk, the blob store, and what DNS block
lists (RFC 5782) say of its sources.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import secrets
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final

import structlog

from mailsift.jobs.metrics import LOOP_LAG, MEMORY, SWEPT
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.dns.rules import DENIALS, DnsAnswer, DnsOutcome
from mailsift.pipeline.errors import error_fields
from mailsift.pipeline.guard import read_address
from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.storage.blobs import Blobs
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import chunks, throttles, workers
from mailsift.storage.sql.throttles import ListingState
from mailsift.storage.sql.workers import ProcessHealth, ProcessReport

_log = structlog.get_logger()

_STEP_SECONDS: Final = 0.25  # of a rest; the loop is late by as much as a step takes longer
_PURGE_SECONDS: Final = 600.0


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """The heartbeat of one process; `draining` is what operators ordered, as of the last heartbeat.

    Attributes:
        owner: names the process in its leases.
        worker_id: names the worker whose pool it is in; "" = it is on its own.
        slots: chunks and steps it takes at a time; a sweeper takes none.
        every: seconds between heartbeats.
        health: returns the state of network, disk and store.
        sources: the identities it asks mail servers from.
    """

    owner: str
    worker_id: str = ""
    slots: int
    every: float
    health: Callable[[], ProcessHealth] = ProcessHealth
    sources: Collection[str] = ()
    lag_s: float = field(default=0.0, init=False)
    draining: bool = field(default=False, init=False)
    _version: str = field(default_factory=partial(version, "mailsift"), init=False)
    _claimed_at: float | None = field(default=None, init=False)
    _swept_at: float | None = field(default=None, init=False)
    _purged_at: float = field(default=float("-inf"), init=False)

    def note_claim(self) -> None:
        """Record that something was claimed just now."""
        self._claimed_at = time.monotonic()

    def note_sweep(self) -> None:
        """Record that expired leases were looked for just now."""
        self._swept_at = time.monotonic()
        SWEPT.set(system_clock())

    async def wait_until_due(self) -> None:
        """Sleep until the next heartbeat is due and measure how late the loop comes."""
        clock = asyncio.get_running_loop().time
        worst, until = 0.0, clock() + self.every
        while (left := until - clock()) > 0:
            step, began = min(_STEP_SECONDS, left), clock()
            await asyncio.sleep(step)
            worst = max(worst, clock() - began - step)
        self.lag_s = worst

    async def send(self, connection: Connection, *, in_hand: int) -> None:
        """Report this process and learn whether it may claim; now and then delete those long gone."""
        report = ProcessReport(
            owner=self.owner,
            worker_id=self.worker_id or self.owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._version,
            slots=self.slots,
            in_hand=in_hand,
            lag_s=self.lag_s,
            rss_bytes=resident_bytes(),
            beat_s=self.every,
            claimed_ago=_age(self._claimed_at),
            swept_ago=_age(self._swept_at),
            health=self.health(),
            sources=tuple(sorted(set(self.sources))),
        )
        LOOP_LAG.set(report.lag_s)
        MEMORY.set(report.rss_bytes)
        orders = await workers.report(connection, report)
        self.draining = orders.draining
        if orders.clock_set_back:
            await chunks.follow_clock(connection)
        if time.monotonic() - self._purged_at > _PURGE_SECONDS:
            self._purged_at = time.monotonic()
            await workers.purge(connection)
            await throttles.purge_rests(connection)
            await chunks.purge_turns(connection)

    async def stop(self, database: Database) -> None:
        """Report that this process ends; a database that is away will find it gone."""
        try:
            await database.run(workers.report_exit, self.owner)
        except Exception as error:  # noqa: BLE001 - then it is shown as gone
            _log.warning("goodbye.error", **error_fields(error))


def process_name() -> str:
    """Return a name for this process that no other has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the memory this process holds; without /proc, the most it has ever held."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _age(at: float | None) -> float | None:
    return None if at is None else time.monotonic() - at


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthWatch:
    """Reports the state of what the process depends on, and checks again what is in trouble.

    Of several disks it reports the one with the least room.

    Attributes:
        folder: where the process keeps its files.
        port25: the way out, where the process probes.
        resolvers: how many resolvers there are, and how many of them are not believed.
    """

    folder: Path
    blobs: Blobs
    port25: Port25Status | None = None
    resolvers: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def current(self) -> ProcessHealth:
        """Return the state of all of it."""
        known, distrusted = self.resolvers()
        folders = [self.folder, *([self.blobs.folder] if self.blobs.folder else [])]
        free, size = min(map(_disk_space, folders), key=_room)
        return ProcessHealth(
            port25=self.port25.state if self.port25 else "",
            resolvers=known,
            distrusted=distrusted,
            disk_free=free,
            disk_size=size,
            store=self.blobs.trouble,
        )

    async def recheck(self) -> None:
        """Check whether what was in trouble is mended."""
        await self.blobs.recheck()
        if self.port25 is not None:
            await self.port25.recheck()


_ROOMY_BYTES: Final = 200 * 2**30
"""A disk needs no more room than one of this size."""


def _room(space: tuple[int, int]) -> float:
    """Return how much room a disk has by its size; one of which nothing is known has most."""
    free, size = space
    return free / min(size, _ROOMY_BYTES) if size else math.inf


def _disk_space(folder: Path) -> tuple[int, int]:
    """Return the free bytes and the size of the disk a folder is on; zeros where that is not known."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return 0, 0
    return found.free, found.total


LISTING_CHECK_SECONDS: Final = 3_600.0
_LISTING_RECHECK_SECONDS: Final = 300.0
"""Until the next check, where another process made one or nothing was learned."""

ListingLookup = Callable[[str], Awaitable[DnsAnswer]]
"""Asks for the A records of a name."""


@dataclass(slots=True, kw_only=True)
class ListingWatch:
    """Looks the sources of one process up in block lists, at start and hourly; who is listed is held so long.

    Any number of them may watch the same ones.

    Attributes:
        zones: the block lists; where there are none, what one of them held is let go of.
        trusted: whether a resolver can be believed now.
        wake: wakes workers, once a source may be asked from again.
        steady: seconds that never jump.
    """

    database: Database
    zones: Sequence[str]
    sources: Collection[str]
    ask: ListingLookup
    trusted: Callable[[], Awaitable[bool]]
    wake: Callable[[int], Awaitable[None]]
    steady: Callable[[], float] = time.monotonic
    _next_check: float = field(default=float("-inf"), init=False)

    async def sweep(self) -> None:
        """Check when it is time; a check that fails is made up for by the next sweep."""
        sources = sorted(filter(may_be_listed, self.sources))
        if not sources or self.steady() < self._next_check:
            return
        if self.zones and not await self.trusted():
            return
        states = []
        for source in sources:
            states += [await self._check(source, zone) for zone in self.zones]
            await self._hold_while_listed(source)
        pause = _LISTING_RECHECK_SECONDS if ListingState.UNKNOWN in states else LISTING_CHECK_SECONDS
        self._next_check = self.steady() + pause

    async def _check(self, source: str, zone: str) -> ListingState:
        """Check, unless another process just did: then nothing is known here yet."""
        due = await self.database.run(
            throttles.is_listing_due, source, zone, seconds=_LISTING_RECHECK_SECONDS
        )
        if not due:
            return ListingState.UNKNOWN
        state = await check_listing(source, zone, self.ask)
        await self.database.run(throttles.record_listing, source, zone, state)
        return state

    async def _hold_while_listed(self, source: str) -> None:
        done = await self.database.run(throttles.hold_while_listed, source, self.zones)
        if done:
            _log.warning("source.listing", source=source, then=done)
        if done == "let go":
            await self.wake(1)


_LISTED, _NOT_LISTED = ip_address("127.0.0.2"), ip_address("127.0.0.1")
"""Test entries of every zone, RFC 5782 section 5: this one is in it, that one never is."""
_LISTED_V6, _NOT_LISTED_V6 = ip_address("::ffff:7f00:2"), ip_address("::ffff:7f00:1")


async def check_listing(identity: str, zone: str, ask: ListingLookup) -> ListingState:
    """Ask a zone about a source, and its test entries before and after.

    A zone that does not list what every zone lists, or lists what none does, is gone, sold or does not talk
    to us: it is not believed, whatever it says.
    """
    address = ip_address(identity)
    listed, clear = (_LISTED, _NOT_LISTED) if address.version == 4 else (_LISTED_V6, _NOT_LISTED_V6)
    if read_listing(await ask(listing_name(listed, zone))) is not ListingState.LISTED:
        return ListingState.UNKNOWN
    found = read_listing(await ask(listing_name(address, zone)))
    if read_listing(await ask(listing_name(clear, zone))) is not ListingState.CLEAR:
        return ListingState.UNKNOWN
    return found


_PRIVATE: Final = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)


def may_be_listed(identity: str) -> bool:
    """Tell whether an identity is an address that the world sees: proxies and private ones are in no list."""
    address = read_address(identity)
    if address is None:
        return False
    private = any(address in network for network in _PRIVATE if network.version == address.version)
    return not (address.is_loopback or address.is_link_local or address.is_unspecified or private)


def listing_name(address: IPv4Address | IPv6Address, zone: str) -> str:
    """Return the name to ask for: the octets, or nibbles, of the address in reverse, below the zone."""
    labels = address.reverse_pointer.removesuffix(".in-addr.arpa").removesuffix(".ip6.arpa")
    return f"{labels}.{zone}"


_ANSWERS: Final = ip_network("127.0.0.0/8")
_ERRORS: Final = ip_network("127.255.255.0/24")  # "you may not ask", as several operators say it


def read_listing(answer: DnsAnswer) -> ListingState:
    """Return what an answer says: only addresses in 127.0.0.0/8 that are no error list anybody."""
    if answer.outcome in DENIALS:
        return ListingState.CLEAR
    if answer.outcome is not DnsOutcome.FOUND:
        return ListingState.UNKNOWN
    found = [ip_address(address) for address in answer.addresses]
    if any(address not in _ANSWERS or address in _ERRORS or address == _NOT_LISTED for address in found):
        return ListingState.UNKNOWN
    return ListingState.LISTED
