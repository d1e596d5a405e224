"""What the prober remembers between calls: catch-all facts, definite answers and names that were made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.clock import Clock
from pipeline.facts import Answer, CatchAllFact, Known, MailboxFact
from pipeline.ports import CacheEntry, FactCache, FactKind
from pipeline.probe.cache import (
    DEFINITE,
    mailbox_key,
    pack_catch_all,
    pack_mailbox,
    unpack_catch_all,
    unpack_mailbox,
)
from pipeline.probe.lanes import Book
from pipeline.probe.words import Probed, Target
from pipeline.smtp import wire
from pipeline.smtp.config import ProbeConfig

_PROBE_SECONDS: Final = 6 * 3600.0
"""How long the random recipient of an unsettled domain is remembered: greylisting wants to see it again."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was known before: mailbox facts that may be used again, catch-all facts by domain."""

    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    catch_alls: dict[str, CatchAllFact] = field(default_factory=dict)


class Memory:
    """Keeps facts in the cache and takes out those that still hold."""

    def __init__(self, cache: FactCache, config: ProbeConfig, clock: Clock) -> None:
        self._cache = cache
        self._config = config
        self._clock = clock

    async def recall(
        self, asked: Mapping[str, Target], book: Book, *, max_age: float, owner: str
    ) -> Recalled:
        """Fetch what is known: the domains go into the book, the rest into the result.

        Args:
            asked: targets by address.
            book: gets the settled domains and the random recipients to ask for again.
            max_age: seconds within which a definite answer is used again; 0 = never.
            owner: whose mailbox facts.
        """
        if not asked:
            return Recalled()
        await self._recall_domains(list(dict.fromkeys(target.domain for target in asked.values())), book)
        mailboxes = await self._recall_mailboxes(asked, book, max_age, owner) if max_age > 0 else {}
        return Recalled(mailboxes, dict(book.settled))

    async def remember(
        self, probed: Probed, asked: Mapping[str, Target], book: Book, recalled: Recalled, *, owner: str
    ) -> None:
        """Put what is new into the cache: domain facts for all, mailbox facts for their owner."""
        catch_alls = [
            self._catch_all_entry(fact, book.probes.get(domain, ""))
            for domain, fact in probed.catch_alls.items()
            if recalled.catch_alls.get(domain) is not fact
        ]
        mailboxes = [
            CacheEntry(mailbox_key(address, owner), pack_mailbox(fact), self._config.mailbox_seconds)
            for address, fact in probed.mailboxes.items()
            if not fact.cached and _is_lasting(fact, book.settled.get(asked[address].domain))
        ]
        if catch_alls:
            await self._cache.put(FactKind.CATCH_ALL, catch_alls)
        if mailboxes:
            await self._cache.put(FactKind.MAILBOX, mailboxes)

    async def _recall_domains(self, domains: list[str], book: Book) -> None:
        now = self._clock()
        for domain, value in (await self._cache.get(FactKind.CATCH_ALL, domains)).items():
            fact, probe = unpack_catch_all(value) or (None, "")
            if fact is None or fact.domain != domain:
                continue
            if fact.catch_all is not Known.UNKNOWN and fact.expires_at > now:
                book.settled[domain] = fact
            elif wire.is_safe(probe):
                book.probes[domain] = probe

    async def _recall_mailboxes(
        self, asked: Mapping[str, Target], book: Book, max_age: float, owner: str
    ) -> dict[str, MailboxFact]:
        now, addresses = self._clock(), {mailbox_key(address, owner): address for address in asked}
        facts: dict[str, MailboxFact] = {}
        for key, value in (await self._cache.get(FactKind.MAILBOX, list(addresses))).items():
            fact, address = unpack_mailbox(value), addresses[key]
            known = book.settled.get(asked[address].domain)
            if fact is not None and fact.asked_at + max_age > now and _is_lasting(fact, known):
                facts[address] = fact
        return facts

    def _catch_all_entry(self, fact: CatchAllFact, probe: str) -> CacheEntry:
        lifetime = _PROBE_SECONDS if fact.catch_all is Known.UNKNOWN else fact.expires_at - self._clock()
        return CacheEntry(fact.domain, pack_catch_all(fact, probe), lifetime)


def _is_lasting(fact: MailboxFact, known: CatchAllFact | None) -> bool:
    """Tell whether an answer may be used again: definite, and an acceptance only where not all are."""
    if fact.answer not in DEFINITE or fact.blanket:
        return False
    catch_all = known.catch_all if known else Known.UNKNOWN
    return catch_all is Known.NO or (catch_all is Known.UNKNOWN and fact.answer is not Answer.ACCEPTED)
