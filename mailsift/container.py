"""The one place where concrete parts meet: every process, command and test opens what it needs from here.

What nobody asks a container for is neither opened nor loaded: a worker has nothing of the API, and a command
that makes keys nothing of the pipeline. That is why the parts are imported where they are made.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mailsift.pipeline.clock import Clock, SharedClock, system_clock
from mailsift.settings import Settings, server_url

if TYPE_CHECKING:
    from mailsift.accounts.keys import KeyService
    from mailsift.accounts.links import People
    from mailsift.accounts.sessions import Sessions
    from mailsift.accounts.sso import SingleSignOn
    from mailsift.accounts.usage import UsageMeter
    from mailsift.api.parts import ApiParts
    from mailsift.events.delivery import Deliverer
    from mailsift.events.endpoints import WebhookService
    from mailsift.events.outbox import JobMailer, MailRoute, Notifier
    from mailsift.events.sender import WebhookSender
    from mailsift.events.signing import Vault
    from mailsift.gauges import InstallationGauges
    from mailsift.jobs.admin.actions import Operations
    from mailsift.jobs.drafts import Drafts, ListUploads
    from mailsift.jobs.engine.engine import Engine, EngineConfig
    from mailsift.jobs.engine.heartbeat import HealthWatch, ListingWatch
    from mailsift.jobs.engine.maintenance import Maintenance, Tidier
    from mailsift.jobs.erasure import Eraser, Holdings
    from mailsift.jobs.forecasts import Forecasts
    from mailsift.jobs.intake.models import IntakeLimits
    from mailsift.jobs.outcomes.accuracy import AccuracyService, Measurer
    from mailsift.jobs.outcomes.receivers import ReceiverService
    from mailsift.jobs.outcomes.service import CipherOf, OutcomeService
    from mailsift.jobs.outcomes.suppressions import SuppressionService
    from mailsift.jobs.places.service import Places
    from mailsift.jobs.plans import Planner
    from mailsift.jobs.policies import PolicyService
    from mailsift.jobs.rates import FleetConfig
    from mailsift.jobs.schedules import ScheduleRuns, ScheduleService
    from mailsift.jobs.service import JobService
    from mailsift.jobs.waker import Waker
    from mailsift.pipeline.dns.domains import DomainFacts
    from mailsift.pipeline.facts import FactCache
    from mailsift.pipeline.guard import AddressGuard
    from mailsift.pipeline.lists import Lists
    from mailsift.pipeline.opt_outs import OptOuts
    from mailsift.pipeline.probe.config import Identities, Source
    from mailsift.pipeline.probe.port25 import InterceptionDetector, Port25Probe, Port25Status
    from mailsift.pipeline.probe.prober import Prober
    from mailsift.pipeline.providers import Providers
    from mailsift.pipeline.single import SingleOptions, SingleValidator
    from mailsift.pipeline.throttle import Throttle
    from mailsift.pipeline.validator import Validator
    from mailsift.pipeline.verdict import VerdictPolicy
    from mailsift.storage.blobs import Blobs
    from mailsift.storage.database import Database
    from mailsift.storage.redis.connection import Client
    from mailsift.storage.redis.rate_limit import RateLimit
    from mailsift.storage.sql.deliveries import EndpointLimits

API_POOL: Final = 20
"""Connections to the database of a process that serves the API."""


_CLOCK_SECONDS: Final = 10.0
"""How often an API asks what time it is; workers do with every sweep."""


@dataclass(frozen=True, slots=True)
class OtherParts:
    """What tests, and a library's caller, have otherwise than the settings say; None: as the settings say."""

    clock: Clock | None = None  # None: the database's
    waker: Waker | None = None
    blobs: Blobs | None = None
    validator: Callable[[Validator], Validator] | None = None  # makes an engine's out of the usual one
    engine: dict[str, Any] | None = None  # fields of EngineConfig
    work_plan: dict[str, Any] | None = None  # fields of WorkPlan
    policy: VerdictPolicy | None = None  # for a Checker too
    requests: dict[str, Any] | None = None  # fields of SendConfig, for webhooks
    endpoint_limits: EndpointLimits | None = None  # how much one webhook gets
    random: random.Random | None = None  # the chance in when deliveries are tried again


class Container:
    """The parts of one process, each made when it is first asked for; `closing` closes them.

    The settings have the addresses of the servers that the parts need.
    """

    def __init__(
        self,
        settings: Settings,
        closing: AsyncExitStack,
        *,
        pool_size: int = 4,
        other: OtherParts | None = None,
    ) -> None:
        self.settings = settings
        self._closing = closing
        self._pool_size = pool_size
        self._other = other or OtherParts()
        self._port25: Port25Status | None = None
        self._shared_clock = SharedClock()
        self.clock = self._other.clock or self._shared_clock

    # What everything stands on.

    @cached_property
    def database(self) -> Database:
        """PostgreSQL; needs DATABASE_URL."""
        from mailsift.storage.database import Database

        database = Database(server_url(self.settings.database_url), pool_size=self._pool_size)
        self._closing.push_async_callback(database.aclose)
        return database

    @cached_property
    def redis(self) -> Client:
        """Redis or Valkey; needs REDIS_URL."""
        from mailsift.storage.redis.connection import connect

        redis = connect(server_url(self.settings.redis_url))
        self._closing.push_async_callback(redis.aclose)
        return redis

    @cached_property
    def blobs(self) -> Blobs:
        """Where lists and results are."""
        from mailsift.storage.blobs import Blobs

        settings = self.settings
        has_lists = self._has_lists if settings.database_url else None
        return self._other.blobs or Blobs(settings.blobs, settings.home / "blob-cache", has_lists=has_lists)

    async def _has_lists(self) -> bool:
        """Say whether there are lists in the blob store."""
        from mailsift.pipeline.errors import SuppressCodes
        from mailsift.storage.sql import jobs

        with SuppressCodes("database_not_migrated"):
            return await self.database.run(jobs.has_stored)
        return False

    @cached_property
    def waker(self) -> Waker:
        """What wakes the workers; needs REDIS_URL."""
        from mailsift.jobs.tasks import CeleryWaker, make_app

        return self._other.waker or CeleryWaker(make_app(server_url(self.settings.redis_url)))

    @cached_property
    def rate_limit(self) -> RateLimit:
        """Counts requests and sign-ins of all processes."""
        from mailsift.storage.redis.rate_limit import RateLimit

        return RateLimit(self.redis)

    @cached_property
    def providers(self) -> Providers:
        """The provider table with the operator's overrides."""
        from mailsift.pipeline.providers import Providers

        return Providers.load(self.settings.overrides, ramp=self.settings.ramp)

    @cached_property
    def _scratch(self) -> Path:
        """This process's own folder of short-lived files."""
        from mailsift.storage.local_files import process_folder

        return self._closing.enter_context(process_folder(scratch_folder(self.settings)))

    async def _repeat(self, work: Callable[[], Awaitable[object]], *, every: float, task: str) -> None:
        """Do some work again and again, until the parts are closed."""
        from mailsift.pipeline.background import repeating

        await self._closing.enter_async_context(repeating(work, every=every, task=task))

    # Jobs.

    @cached_property
    def jobs(self) -> JobService:
        """What can be asked of jobs."""
        from mailsift.jobs.results.browse import Browser
        from mailsift.jobs.service import JobService
        from mailsift.jobs.submissions import Submissions

        return JobService(
            database=self.database,
            blobs=self.blobs,
            waker=self.waker,
            scratch=self._scratch,
            forecasts=lambda: self.forecasts,
            places=self.places,
            eraser=self.eraser,
            submissions=Submissions(database=self.database, blobs=self.blobs, places=self.places),
            browser=Browser(database=self.database, blobs=self.blobs, scratch=self._scratch),
        )

    @cached_property
    def forecasts(self) -> Forecasts:
        """When jobs end; needs REDIS_URL."""
        from mailsift.jobs.forecasts import Forecasts

        return Forecasts(database=self.database, redis=self.redis, fleet=self._fleet)

    @cached_property
    def _fleet(self) -> FleetConfig:
        from mailsift.jobs.rates import FleetConfig

        return FleetConfig(self.providers, self._own_identities, self.clock, self.settings.greylist_delays)

    @cached_property
    def _own_identities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.identity for source in read_sources(self.settings)))

    @cached_property
    def places(self) -> Places:
        """Where lists are fetched from and results put, beside uploads and downloads."""
        from mailsift.jobs.places.place import Connections
        from mailsift.jobs.places.service import Places

        return Places(
            connections=Connections.load(self.settings.connections),
            web=lambda: self.sender,
            vault=lambda: self._vault,
            database=lambda: self.database,
        )

    @cached_property
    def drafts(self) -> Drafts:
        """Lists that were uploaded but not started."""
        from mailsift.jobs.drafts import Drafts

        return Drafts(
            database=self.database,
            blobs=self.blobs,
            waker=self.waker,
            scratch=self._scratch,
            limits=self._intake_limits,
            clock=self.clock,
        )

    @cached_property
    def uploads(self) -> ListUploads:
        """Lists that come in piece by piece."""
        from mailsift.jobs.drafts import ListUploads

        return ListUploads(drafts=self.drafts, blobs=self.blobs, max_bytes=self.settings.max_bytes)

    @cached_property
    def plans(self) -> Planner:
        """What lists will take; needs REDIS_URL."""
        from mailsift.jobs.plans import Planner
        from mailsift.pipeline.probe.cache import ProbeCache
        from mailsift.pipeline.probe.config import ProbeConfig

        return Planner(
            database=self.database,
            jobs=self.jobs,
            drafts=self.drafts,
            blobs=self.blobs,
            forecasts=self.forecasts,
            cache=self._fact_cache,
            answers=ProbeCache(self._fact_cache, ProbeConfig(helo_name=self.settings.helo_name), self.clock),
            domains=self.domains,
            providers=self.providers,
            limits=self._intake_limits,
            scratch=self._scratch,
            refuse_harvested=self.settings.refuse_harvested,
        )

    @cached_property
    def schedules(self) -> ScheduleService:
        """What can be asked of schedules."""
        from mailsift.jobs.schedules import ScheduleService

        return ScheduleService(
            database=self.database, runs=self.schedule_runs, places=self.places, clock=self.clock
        )

    @cached_property
    def schedule_runs(self) -> ScheduleRuns:
        """Runs what is due."""
        from mailsift.jobs.schedules import ScheduleRuns

        return ScheduleRuns(
            database=self.database,
            blobs=self.blobs,
            jobs=self.jobs,
            places=self.places,
            waker=self.waker,
            clock=self.clock,
            scratch=self._scratch,
        )

    @cached_property
    def outcomes(self) -> OutcomeService:
        """What accounts told of messages they really sent."""
        from mailsift.jobs.outcomes.service import OutcomeService

        return OutcomeService(database=self.database, cipher=self._cipher, clock=self.clock)

    @property
    def _cipher(self) -> CipherOf:
        from mailsift.jobs.outcomes.service import cipher_of

        return partial(cipher_of, vault=self._vault, token=secrets.token_bytes)

    @cached_property
    def measurer(self) -> Measurer:
        """Holds verdicts against what happened."""
        from mailsift.jobs.outcomes.accuracy import Measurer

        return Measurer(database=self.database, blobs=self.blobs, outcomes=self.outcomes)

    @cached_property
    def accuracy(self) -> AccuracyService:
        """What can be asked about how verdicts held."""
        from mailsift.jobs.outcomes.accuracy import AccuracyService

        return AccuracyService(
            database=self.database, blobs=self.blobs, clock=self.clock, scratch=self._scratch
        )

    @cached_property
    def policies(self) -> PolicyService:
        """What accounts want done with verdicts."""
        from mailsift.jobs.policies import PolicyService

        return PolicyService(database=self.database)

    @cached_property
    def suppressions(self) -> SuppressionService:
        """To whom accounts may not send."""
        from mailsift.jobs.outcomes.suppressions import SuppressionService

        return SuppressionService(database=self.database, cipher=self._cipher, clock=self.clock)

    @cached_property
    def receivers(self) -> ReceiverService:
        """Where mail senders tell what became of messages."""
        from mailsift.jobs.outcomes.receivers import ReceiverService

        return ReceiverService(
            database=self.database,
            outcomes=self.outcomes,
            vault=self._vault,
            fetch=self.sender.fetch,
            clock=self.clock,
            token=secrets.token_bytes,
        )

    @cached_property
    def eraser(self) -> Eraser:
        """Deletes jobs and accounts, and what is older than it may be."""
        from mailsift.jobs.erasure import Eraser

        return Eraser(database=self.database, blobs=self.blobs, outcome_days=self.settings.outcome_days)

    @cached_property
    def holdings(self) -> Holdings:
        """What is kept of accounts."""
        from mailsift.jobs.erasure import Holdings

        return Holdings(database=self.database, eraser=self.eraser, clock=self.clock)

    @cached_property
    def tidier(self) -> Tidier:
        """Deletes old files of this machine."""
        from mailsift.jobs.engine.maintenance import Tidier

        clock = self._other.clock or system_clock  # which files have their times from
        return Tidier(blobs=self.blobs, scratch=scratch_folder(self.settings), clock=clock)

    @cached_property
    def operations(self) -> Operations:
        """What operators see and do."""
        from mailsift.jobs.admin.actions import Actions, JobActions, Operations, ThrottleAdmin
        from mailsift.jobs.admin.console import Console, InstallationReader
        from mailsift.jobs.tasks import QUEUE

        database, redis, waker = self.database, self.redis, self.waker
        reader = InstallationReader(database=database, redis=redis, queue=QUEUE, health=self._health)
        return Operations(
            console=Console(
                database=database, redis=redis, forecasts=self.forecasts, reader=reader, fleet=self._fleet
            ),
            reader=reader,
            jobs=JobActions(database=database, jobs=self.jobs, waker=waker),
            throttles=ThrottleAdmin(database=database, redis=redis, waker=waker, fleet=self._fleet),
            actions=Actions(database=database, waker=waker, clock=self.clock),
        )

    @cached_property
    def gauges(self) -> InstallationGauges:
        """The metrics of the whole installation."""
        from mailsift.gauges import InstallationGauges

        return InstallationGauges(self.operations.reader.read)

    @cached_property
    def _health(self) -> HealthWatch:
        """What this process sees of network, disk and store; of resolvers and port 25 where it validates."""
        from mailsift.jobs.engine.heartbeat import HealthWatch

        return HealthWatch(
            folder=self.settings.home,
            blobs=self.blobs,
            port25=self._port25,
            resolvers=(lambda: self.domains.resolver_counts) if self._port25 else lambda: (0, 0),
        )

    @property
    def _intake_limits(self) -> IntakeLimits:
        from mailsift.jobs.intake.models import IntakeLimits

        settings = self.settings
        return IntakeLimits(rows=settings.max_rows, bytes=settings.max_bytes, columns=settings.max_columns)

    # Accounts.

    @cached_property
    def keys(self) -> KeyService:
        """Makes and checks API keys."""
        from mailsift.accounts.keys import KeyService
        from mailsift.key_files import read_key_peppers

        keys = KeyService(
            database=self.database,
            peppers=read_key_peppers(self.settings),
            limit=self.rate_limit,
            clock=self.clock,
            choose=secrets.choice,
        )
        self._closing.push_async_callback(keys.aclose)
        return keys

    @cached_property
    def people(self) -> People:
        """Who signs in to the pages."""
        from mailsift.accounts.links import Links, People
        from mailsift.accounts.people import Members
        from mailsift.accounts.second_factors import SecondFactors
        from mailsift.accounts.sessions import Passwords, Sessions, SignInLimiter, normalized_email

        database, clock, token = self.database, self.clock, secrets.token_bytes
        passwords = Passwords(token)
        only = self.settings.oidc_only if self.settings.oidc_issuer else ()
        sessions = Sessions(
            database=database,
            passwords=passwords,
            limiter=SignInLimiter(self.rate_limit, database=self.database, clock=self.clock),
            clock=clock,
            token=token,
            factors=SecondFactors(database=database, vault=self._vault, clock=clock, token=token),
            local=frozenset(map(normalized_email, only)) or None,
        )
        sso = self._single_sign_on(sessions) if self.settings.oidc_issuer else None
        sessions.recheck = sso.is_still_valid if sso else None
        return People(
            sessions=sessions,
            links=Links(database=database, passwords=passwords, sessions=sessions, clock=clock, token=token),
            members=Members(database=database),
            limit=self.rate_limit,
            public_url=self.settings.public_url,
            sso=sso,
            sso_name=self.settings.oidc_name,
        )

    def _single_sign_on(self, sessions: Sessions) -> SingleSignOn:
        import httpx

        from mailsift.accounts.sso import OidcClient, OidcProvider, SingleSignOn, read_group_rule

        settings = self.settings
        secret = settings.oidc_client_secret
        client = OidcClient(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=secret.get_secret_value() if secret else "",
            scopes=settings.oidc_scopes,
            algorithm=settings.oidc_algorithm,
            groups_claim=settings.oidc_groups_claim,
        )
        http = httpx.AsyncClient()
        self._closing.push_async_callback(http.aclose)
        return SingleSignOn(
            database=self.database,
            provider=OidcProvider(client, http=http, clock=self.clock),
            rules=[read_group_rule(text) for text in settings.oidc_groups],
            sessions=sessions,
            vault=self._vault,
            clock=self.clock,
        )

    # Events.

    @cached_property
    def sender(self) -> WebhookSender:
        """Makes the requests of webhooks."""
        from mailsift.events.sender import ReceiverResolver, SendConfig, WebhookSender
        from mailsift.events.webhook_url import host_name_in, split_hosts
        from mailsift.pipeline.guard import AddressGuard

        settings = self.settings
        names = ReceiverResolver(settings.dns_servers)
        self._closing.push_async_callback(names.aclose)
        own_names, own_addresses = split_hosts(settings.own_hosts)
        return WebhookSender(
            guard=AddressGuard(allow_non_public=settings.allow_non_public, denied=own_addresses),
            resolve=names.resolve,
            config=SendConfig(**{"allow_http": settings.webhook_allow_http} | (self._other.requests or {})),
            own_names=own_names | host_name_in(settings.public_url),
        )

    @cached_property
    def webhooks(self) -> WebhookService:
        """What can be asked of webhooks."""
        from mailsift.events.endpoints import WebhookService

        return WebhookService(
            database=self.database,
            sender=self.sender,
            vault=self._vault,
            clock=self.clock,
            token=secrets.token_bytes,
            wake=self.waker.wake,
        )

    @cached_property
    def _vault(self) -> Vault:
        from mailsift.key_files import open_vault

        return open_vault(self.settings)

    @cached_property
    def deliverer(self) -> Deliverer:
        """Makes the attempts that are due."""
        from mailsift.events.delivery import Deliverer

        return Deliverer(
            database=self.database,
            sender=self.sender,
            vault=self._vault,
            clock=self.clock,
            random=self._other.random or random.Random(),
            limits=self._other.endpoint_limits,
        )

    @cached_property
    def notifier(self) -> Notifier:
        """Tells owners of their webhooks."""
        from mailsift.events.outbox import Notifier

        return Notifier(database=self.database, route=self._mail_route, clock=self.clock)

    @cached_property
    def job_mailer(self) -> JobMailer:
        """Tells members of their jobs."""
        from mailsift.events.outbox import JobMailer

        return JobMailer(database=self.database, route=self._mail_route, clock=self.clock)

    @cached_property
    def _mail_route(self) -> MailRoute:
        from mailsift.events.mail import Mailer, parse_relay
        from mailsift.events.outbox import MailRoute

        settings = self.settings
        relay = settings.mail_relay and parse_relay(settings.mail_relay.get_secret_value())
        name = settings.greeting() if relay else ""
        return MailRoute(
            send=Mailer(relay, helo_name=name).send if relay else None,
            sender=settings.mail_sender or f"mailsift@{name}",
            public_url=settings.public_url,
        )

    @cached_property
    def maintenance(self) -> Maintenance:
        """What a worker does beside chunks."""
        from mailsift.jobs.engine.maintenance import Maintenance
        from mailsift.storage.sql import throttles

        return Maintenance(
            deliverer=self.deliverer,
            periodic={
                "clock": self._learn_time,
                "schedule": self.schedule_runs.run_due,
                "retention": self.eraser.sweep,
                "measure": self.measurer.sweep,
                "tidy": self.tidier.sweep,
                "drafts": self.drafts.sweep,
                "notice": self.notifier.send_due,
                "job_mail": self.job_mailer.send_due,
                "ledger": partial(self.database.run, throttles.purge_ledger),
                "listing": self._listing_watch.sweep,
                "attempts": self.deliverer.purge,
                "health": self._health.recheck,
            },
            health=self._health.current,
        )

    @cached_property
    def _listing_watch(self) -> ListingWatch:
        from mailsift.jobs.engine.heartbeat import ListingWatch

        return ListingWatch(
            database=self.database,
            zones=self.settings.block_lists,
            sources=self._own_identities,
            ask=self.domains.addresses_of,
            trusted=self.domains.trust.ready,
            wake=self.waker.wake,
        )

    async def _learn_time(self) -> None:
        """Ask the database what time it is; while it is away, time goes on from what is known."""
        from mailsift.pipeline.errors import MailsiftError
        from mailsift.storage.database import DatabaseError

        with suppress(DatabaseError, MailsiftError, OSError):
            self._shared_clock.learn(await self.database.now())

    # The pipeline.

    @cached_property
    def lists(self) -> Lists:
        """Role, free and throw-away names, with the operator's overrides."""
        from mailsift.pipeline.lists import Lists

        return Lists.load(self.settings.overrides)

    @cached_property
    def _guard(self) -> AddressGuard:
        from mailsift.pipeline.guard import AddressGuard

        return AddressGuard(allow_non_public=self.settings.allow_non_public)

    @cached_property
    def _fact_cache(self) -> FactCache:
        """Facts of all processes; without REDIS_URL those of this one."""
        from mailsift.storage.redis.facts import LocalFactCache, RedisFactCache

        return LocalFactCache(self.clock) if self.settings.redis_url is None else RedisFactCache(self.redis)

    @cached_property
    def domains(self) -> DomainFacts:
        """What is known of domains, and who asks DNS for the rest."""
        from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts

        domains = DomainFacts(
            config=DnsConfig(servers=self.settings.dns_servers, canaries=self.settings.dns_canaries),
            cache=self._fact_cache,
            providers=self.providers,
            guard=self._guard,
            clock=self.clock,
        )
        self._closing.push_async_callback(domains.aclose)
        return domains

    async def throttle(self, *, edited: bool) -> Throttle:
        """Return the throttle; an edited one obeys what operators changed, which it reads in the database.

        Without REDIS_URL it is this process's own.
        """
        from mailsift.storage.redis.local_throttle import LocalThrottle, ThrottleConfig
        from mailsift.storage.redis.throttle import RedisThrottle
        from mailsift.storage.sql.throttles import (
            EditBook,
            LedgerBook,
            keep_edits_refreshed,
            keep_ledger_written,
        )

        settings, edits = self.settings, EditBook()
        ledger = LedgerBook(self.providers.knows, self.providers.row)
        if edited:
            await self._closing.enter_async_context(keep_edits_refreshed(self.database, edits))
            await self._closing.enter_async_context(keep_ledger_written(self.database, ledger))
        config = ThrottleConfig(
            lease_seconds=settings.lease_seconds,
            processes=settings.worker_processes,
            edits=edits,
            ledger=ledger,
        )
        if settings.redis_url is None:
            return LocalThrottle(self.providers.row, config, clock=time.monotonic, random=random.Random())
        throttle = RedisThrottle(self.redis, row=self.providers.row, config=config)
        await self._repeat(throttle.renew, every=settings.heartbeat_seconds, task="throttle")
        return throttle

    def _port25_probe(self, throttle: Throttle, interception: InterceptionDetector) -> Port25Probe:
        from mailsift.pipeline.probe.port25 import Port25Probe

        settings = self.settings
        return Port25Probe(
            domains=self.domains,
            throttle=throttle,
            guard=self._guard,
            names=settings.preflight_domains,
            sources=read_sources(settings),
            port=settings.smtp_port,
            interception=interception,
        )

    def _prober(self, throttle: Throttle) -> Prober:
        from mailsift.pipeline.probe.config import PATIENT_SECONDS, ProbeConfig
        from mailsift.pipeline.probe.prober import Prober

        settings = self.settings
        return Prober(
            config=ProbeConfig(
                port=settings.smtp_port,
                helo_name=settings.given_helo_name,
                mail_from=settings.mail_from,
                sources=_sources(settings),
                identities=_identities(settings),
                session_seconds=PATIENT_SECONDS,
            ),
            throttle=throttle,
            providers=self.providers,
            guard=self._guard,
            cache=self._fact_cache,
            clock=self.clock,
            token=lambda: secrets.token_hex(16),
        )

    async def _validator_maker(self, *, edited: bool) -> Callable[[], Validator]:
        """Return what makes a validator: that loads frames, which not every process needs at once."""
        from mailsift.pipeline.probe.port25 import Port25Status

        throttle = await self.throttle(edited=edited)
        prober = self._prober(throttle)
        opt_outs = await self._opt_outs(learning=edited)
        port25 = Port25Status(
            self._port25_probe(throttle, prober.interception).probe, monotonic=time.monotonic
        )
        self._port25 = port25

        def make() -> Validator:
            from mailsift.pipeline.validator import Validator

            return Validator(
                lists=self.lists,
                providers=self.providers,
                domains=self.domains,
                prober=prober,
                port25=port25,
                policy=self.policy,
                opt_outs=opt_outs,
            )

        return make

    async def _opt_outs(self, *, learning: bool) -> OptOuts:
        """Return the domains that do not want to be asked: those of the file, and what operators add."""
        from mailsift.pipeline.opt_outs import OptOuts, read_opt_outs
        from mailsift.storage.sql.throttles import keep_opt_outs_refreshed

        known = OptOuts(read_opt_outs(self.settings.opt_outs) if self.settings.opt_outs else ())
        if learning:
            await self._closing.enter_async_context(keep_opt_outs_refreshed(self.database, known))
        return known

    @property
    def policy(self) -> VerdictPolicy:
        """What decides between verdicts."""
        from mailsift.pipeline.verdict import VerdictPolicy

        return self._other.policy or VerdictPolicy(disposable_invalid=self.settings.disposable_invalid)

    # What one process is there for; to be asked for once.

    async def port25_probe(self) -> Port25Probe:
        """Return what finds out whether mail servers can be reached."""
        from mailsift.pipeline.probe.port25 import InterceptionDetector

        return self._port25_probe(await self.throttle(edited=False), InterceptionDetector(self.providers))

    async def validator(self) -> Validator:
        """Return the whole pipeline, with its resolver, throttle and fact cache."""
        return (await self._validator_maker(edited=False))()

    async def _singles(
        self, record_usage: Callable[[SingleOptions, int, int, int], None]
    ) -> tuple[SingleValidator, SingleValidator]:
        """Return what judges one address at a time, and what does in test mode, uncounted."""
        from mailsift.jobs.metrics import count_verdict
        from mailsift.pipeline.single import SingleValidator

        make = partial(
            SingleValidator,
            policy=self.policy,
            record_usage=record_usage,
            outcome_facts=self.outcomes.facts_if_available,
        )
        maker = await self._validator_maker(edited=True)
        usual = make(lists=self.lists, open_validator=maker, count_verdict=count_verdict)
        scripted = make(
            lists=self._test_lists,
            open_validator=self._test_validator,
            count_verdict=lambda _status, _result: None,
        )
        return usual, scripted

    @cached_property
    def _test_lists(self) -> Lists:
        from mailsift.pipeline.lists import Lists
        from mailsift.pipeline.scripted import DISPOSABLE

        return Lists.load(self.settings.overrides, disposable=[DISPOSABLE])

    def _test_validator(self) -> Validator:
        """Return the pipeline of test mode, which asks nobody."""
        from mailsift.pipeline.scripted import OpenPort, ScriptedDomains, ScriptedServers
        from mailsift.pipeline.validator import Validator

        return Validator(
            lists=self._test_lists,
            providers=self.providers,
            domains=ScriptedDomains(),
            prober=ScriptedServers(),
            port25=OpenPort(),
            policy=self.policy,
        )

    async def _usage(self) -> UsageMeter:
        """Return what counts single addresses, and writes it down every few seconds and at the end."""
        from mailsift.accounts.usage import FLUSH_SECONDS, UsageMeter

        meter = UsageMeter(self.database)
        self._closing.push_async_callback(meter.flush)
        await self._repeat(meter.flush, every=FLUSH_SECONDS, task="usage")
        return meter

    async def api_parts(self) -> ApiParts:
        """Return what the API is made of."""
        from mailsift.accounts.first_steps import FirstStepsService
        from mailsift.accounts.usage import Budget
        from mailsift.accounts.widget import WidgetGate
        from mailsift.api.health import Readiness
        from mailsift.api.http.auth import Authenticator, FloodGuard
        from mailsift.api.http.idempotency import AnswerStore
        from mailsift.api.parts import ApiParts
        from mailsift.key_files import read_key_peppers

        usage = await self._usage()
        single, test_single = await self._singles(usage.count_single)
        await self._learn_time()
        await self._repeat(self._learn_time, every=_CLOCK_SECONDS, task="clock")

        authenticator = Authenticator(
            keys=self.keys,
            limit=self.rate_limit,
            requests_per_minute=self.settings.requests_per_minute,
            rb_key=self.settings.rb_key,
        )
        return ApiParts(
            authenticator=authenticator,
            keys=self.keys,
            people=self.people,
            first_steps=FirstStepsService(database=self.database, keys=self.keys, jobs=self.jobs),
            single=single,
            test_single=test_single,
            jobs=self.jobs,
            drafts=self.drafts,
            uploads=self.uploads,
            plans=self.plans,
            webhooks=self.webhooks,
            schedules=self.schedules,
            operations=self.operations,
            outcomes=self.outcomes,
            policies=self.policies,
            suppressions=self.suppressions,
            receivers=self.receivers,
            floods=FloodGuard(self.rate_limit),
            accuracy=self.accuracy,
            holdings=self.holdings,
            usage=usage,
            budget=Budget(self.rate_limit, self.settings.mcp_budget),
            widget=WidgetGate(
                peppers=read_key_peppers(self.settings),
                limit=self.rate_limit,
                clock=self.clock,
                token=secrets.token_bytes,
            ),
            answers=AnswerStore(database=self.database, vault=self._vault),
            ready=Readiness(self._check_schema).check,
            clock=self.clock,
            max_bytes=self.settings.max_bytes,
            doors=self.settings.doors,
            probing=self._probing_notice,
        )

    def _probing_notice(self) -> dict[str, Any]:
        name = self.settings.greeting()
        return {"helo_name": name, "contact": self.settings.contact or f"postmaster@{name}"}

    async def _check_schema(self) -> None:
        from mailsift.pipeline.errors import MailsiftError
        from mailsift.storage.schema import current_revision, serves

        found = await self.database.run(current_revision)
        if not serves(found):
            raise MailsiftError(
                "database_not_migrated",
                "The database doesn’t have this release’s schema. Run mailsift migrate.",
                retryable=True,
            )

    async def engine(self, *, worker_id: str = "") -> Engine:
        """Return the engine of one worker process, of the pool `worker_id`."""
        from mailsift.jobs.engine.chunk import ChunkSizes, ChunkWorker, WorkPlan
        from mailsift.jobs.engine.engine import Engine
        from mailsift.jobs.engine.step import StepWorker
        from mailsift.pipeline.throttle import StopRule

        await self._learn_time()
        change = self._other.validator or (lambda usual: usual)
        usual = (await self._validator_maker(edited=True))()
        validator = change(usual)
        work_plan = WorkPlan(
            cut=ChunkSizes(full_session=lambda key: max(1, self.providers.row(key).recipients - 1)),
            delays=self.settings.greylist_delays,
            sources=frozenset(self._own_identities),
            stop=StopRule(share=self.settings.stop_share, policy=self.settings.stop_policy),
        )
        config = self._engine_config(worker_id)
        engine = Engine(
            config=config,
            database=self.database,
            chunks=ChunkWorker(
                database=self.database,
                blobs=self.blobs,
                validator=validator,
                test_validator=self._test_validator(),
                work_plan=replace(work_plan, **(self._other.work_plan or {})),
                terms=config.terms,
                outcomes=self.outcomes,
            ),
            steps=StepWorker(
                database=self.database,
                blobs=self.blobs,
                limits=self._intake_limits,
                overrides=str(self.settings.overrides or ""),
                scratch=self._scratch,
                terms=config.terms,
                places=self.places,
                look_up=usual.look_ahead,
                refuse_harvested=self.settings.refuse_harvested,
            ),
            maintenance=self.maintenance,
            waker=self.waker,
            is_unhurried=lambda key: self.providers.row(key).is_unhurried,
        )
        self._closing.push_async_callback(engine.aclose)
        return engine

    def _engine_config(self, worker_id: str) -> EngineConfig:
        from mailsift.jobs.engine.engine import EngineConfig
        from mailsift.jobs.engine.heartbeat import process_name

        config = EngineConfig(
            owner=process_name(),
            worker_id=worker_id,
            sources=self._own_identities,
            slots=self.settings.chunk_slots,
            triage_slots=self.settings.survey_slots,
            lease_s=self.settings.lease_seconds,
            heartbeat_s=self.settings.heartbeat_seconds,
            sweep_s=self.settings.sweep_seconds,
        )
        return replace(config, **(self._other.engine or {}))


@asynccontextmanager
async def open_container(
    settings: Settings, *, pool_size: int = 4, other: OtherParts | None = None
) -> AsyncIterator[Container]:
    """Give the parts of one process, and close at the end what was asked for."""
    async with AsyncExitStack() as closing:
        yield Container(settings, closing, pool_size=pool_size, other=other)


@asynccontextmanager
async def open_service(settings: Settings, other: OtherParts | None = None) -> AsyncIterator[JobService]:
    """Give what can be asked of jobs; needs DATABASE_URL and REDIS_URL."""
    async with open_container(settings, other=other) as container:
        yield container.jobs


@asynccontextmanager
async def open_engine(
    settings: Settings, *, worker_id: str = "", other: OtherParts | None = None
) -> AsyncIterator[Engine]:
    """Give the engine of one worker process, of the pool `worker_id`; needs DATABASE_URL and REDIS_URL."""
    # A chunk's transactions are a small part of its time, and each connection costs the server six megabytes.
    connections = max(2, settings.chunk_slots // 2)
    async with open_container(settings, pool_size=connections, other=other) as container:
        yield await container.engine(worker_id=worker_id)


def scratch_folder(settings: Settings) -> Path:
    """Return the folder for files that live as long as one call."""
    folder = settings.home / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_sources(settings: Settings) -> list[Source]:
    """Return our own addresses; their labels are without the credentials some have.

    Raises:
        MailsiftError: `bad_source`.
    """
    from mailsift.pipeline.probe.config import parse_source

    known = _identities(settings)
    return [
        parse_source(one, helo_name=settings.given_helo_name, identities=known) for one in _sources(settings)
    ]


def _identities(settings: Settings) -> Identities:
    from mailsift.pipeline.probe.config import SHARED_IDENTITY, Identities, default_identity

    # Where private addresses are dialled, everything is at home.
    default = SHARED_IDENTITY if settings.allow_non_public else default_identity()
    return Identities(settings.source_identities, default=default)


def _sources(settings: Settings) -> tuple[str, ...]:
    return settings.source_addresses or ("",)
