"""A fault of ours is no attempt: the delivery waits, and nobody is blamed for it."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from mailsift.events.endpoints import EndpointView
from mailsift.events.payloads import SimulatedEvent
from mailsift.events.retry import NOT_SENT_S, DeliveryState, ErrorClass
from mailsift.storage.sql import deliveries
from tests.support.receiver import Receiver, receiving
from tests.support.webhooks import Webhooks, open_webhooks
from tests.unit.pipeline.dns_stub import REFUSED, SERVFAIL, SILENCE, DnsStub, Says, serving

NAME = "hook.example.com"


@asynccontextmanager
async def named_receiver(
    url: str, zone: dict[str, dict[str, Says]]
) -> AsyncIterator[tuple[Receiver, DnsStub, Webhooks]]:
    """A receiver, a DNS server with this zone, and webhooks that ask nobody else about names."""
    async with (
        receiving() as receiver,
        serving(zone) as dns,
        open_webhooks(url, dns_servers=(dns.server,)) as hooks,
    ):
        yield receiver, dns, hooks


async def registered(hooks: Webhooks, receiver: Receiver) -> EndpointView:
    endpoint, _ = await hooks.service.create(hooks.account, f"http://{NAME}:{receiver.port}/hook")
    return endpoint


async def health(hooks: Webhooks, endpoint: EndpointView) -> dict[str, Any]:
    async with hooks.database.begin() as connection:
        row = await deliveries.get_endpoint(connection, endpoint.id)
    assert row is not None
    return {name: row[name] for name in ("failures", "failing_since", "exhausted", "probe_at", "enabled")}


async def assert_waits_unblamed(hooks: Webhooks, endpoint: EndpointView, waiting: int) -> None:
    deliveries = await hooks.service.deliveries(hooks.account, endpoint.id, limit=100)
    assert [(one.state, one.attempts) for one in deliveries] == [(DeliveryState.PENDING, 0)] * waiting
    assert not await hooks.log(endpoint.id)
    assert await health(hooks, endpoint) == {
        "failures": 0,
        "failing_since": None,
        "exhausted": 0,
        "probe_at": None,
        "enabled": True,
    }


@pytest.mark.parametrize("broken", [SERVFAIL, REFUSED, SILENCE], ids=["servfail", "refused", "silence"])
async def test_a_resolver_that_fails_costs_no_attempt_and_blames_nobody(
    database_url: str, broken: Says
) -> None:
    zone = {NAME: {"A": broken, "AAAA": broken}}
    async with named_receiver(database_url, zone) as (receiver, dns, hooks):
        endpoint = await registered(hooks, receiver)
        await hooks.happen(10)
        for _ in range(20):  # twice as often as a delivery may be tried; two of ten at a time
            assert await hooks.work() <= 2
            await assert_waits_unblamed(hooks, endpoint, 10)
            hooks.now += 1.2 * NOT_SENT_S + 0.1
            if broken is SILENCE:  # every look takes as long as the resolver is given
                break
        asked = dns.asked.total()
        assert asked >= 2
        zone[NAME] = {"A": Says(["127.0.0.1"])}
        assert await hooks.work() == 10
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 10
    assert receiver.connections == 10


async def test_what_could_not_be_sent_waits_a_minute_and_its_endpoint_with_it(database_url: str) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with named_receiver(database_url, zone) as (receiver, dns, hooks):
        endpoint = await registered(hooks, receiver)
        await hooks.happen(10)
        assert await hooks.work() == 2
        asked = dns.asked.total()
        hooks.now += 0.79 * NOT_SENT_S
        assert await hooks.work() == 0
        assert dns.asked.total() == asked
        zone[NAME] = {"A": Says(["127.0.0.1"])}
        hooks.now += 0.42 * NOT_SENT_S
        assert await hooks.work() == 10
        assert (await hooks.newest(endpoint.id)).state is DeliveryState.SUCCEEDED


@pytest.mark.parametrize("zone", [{}, {NAME: {}}], ids=["nxdomain", "nodata"])
async def test_a_name_that_does_not_exist_is_the_receivers_fault(
    database_url: str, zone: dict[str, dict[str, Says]]
) -> None:
    async with named_receiver(database_url, zone) as (receiver, _, hooks):
        endpoint = await registered(hooks, receiver)
        await hooks.happen()
        assert await hooks.work() == 1
        assert [made.error for made in await hooks.log(endpoint.id)] == [ErrorClass.DNS]
        assert (await health(hooks, endpoint))["failures"] == 1


async def test_half_an_answer_is_enough_if_it_holds_an_address(database_url: str) -> None:
    zone = {NAME: {"A": Says(["127.0.0.1"]), "AAAA": SERVFAIL}}
    async with named_receiver(database_url, zone) as (receiver, _, hooks):
        await registered(hooks, receiver)
        await hooks.happen()
        assert await hooks.work() == 1
    assert receiver.connections == 1


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing more; what is open stays open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_machine_without_descriptors_blames_nobody(database_url: str) -> None:
    async with receiving() as receiver, open_webhooks(database_url) as hooks:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        (claimed,) = await hooks.deliverer.claim(1)
        with no_descriptors():
            await hooks.deliverer.deliver(claimed)
        await assert_waits_unblamed(hooks, endpoint, 1)
        hooks.now += 1.2 * NOT_SENT_S + 0.1
        assert await hooks.work() == 1
    assert receiver.connections == 1


async def test_a_test_that_could_not_be_sent_says_so(database_url: str) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with named_receiver(database_url, zone) as (receiver, _, hooks):
        endpoint = await registered(hooks, receiver)
        delivery = await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
    assert (delivery.error, delivery.status_code) == (ErrorClass.NOT_SENT, 0)


async def test_what_could_not_be_sent_is_skipped_when_its_endpoint_was_disabled_meanwhile(
    database_url: str,
) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with named_receiver(database_url, zone) as (receiver, _, hooks):
        endpoint = await registered(hooks, receiver)
        await hooks.happen()
        (claimed,) = await hooks.deliverer.claim(1)
        await hooks.service.update(hooks.account, endpoint.id, enabled=False)
        await hooks.deliverer.deliver(claimed)
        view = await hooks.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.SKIPPED, 0)
        assert view.finished_at is not None
        await hooks.happen()
        await hooks.deliverer.deliver(claimed)  # its lease is over: nothing happens
        assert (await hooks.newest(endpoint.id)).finished_at == view.finished_at
