"""A fault of ours is no attempt: the delivery waits, and nobody is blamed for it."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from events.names import Names
from events.outcome import ErrorClass
from events.retry import NOT_SENT_S, DeliveryState
from events.samples import Sample
from events.views import EndpointView
from storage import endpoint_rows
from tests.receiver import Receiver, receiving
from tests.unit.pipeline.dns_stub import REFUSED, SERVFAIL, SILENCE, DnsStub, Says, serving
from tests.webhook_house import House, opened

NAME = "hook.example.com"


@asynccontextmanager
async def named_house(url: str, dns: DnsStub) -> AsyncIterator[House]:
    """A house that asks this DNS server; nobody else is asked."""
    names = Names([dns.server])
    try:
        async with opened(url, resolve=names.resolve, timeout_s=10.0) as house:
            yield house
    finally:
        await names.aclose()


async def registered(house: House, receiver: Receiver) -> EndpointView:
    endpoint, _ = await house.service.create(house.account, f"http://{NAME}:{receiver.port}/hook")
    return endpoint


async def health(house: House, endpoint: EndpointView) -> dict[str, Any]:
    async with house.database.begin() as connection:
        row = await endpoint_rows.get(connection, endpoint.id)
    assert row is not None
    return {name: row[name] for name in ("failures", "failing_since", "exhausted", "probe_at", "enabled")}


async def assert_waits_unblamed(house: House, endpoint: EndpointView, waiting: int) -> None:
    deliveries = await house.service.deliveries(house.account, endpoint.id, limit=100)
    assert [(one.state, one.attempts) for one in deliveries] == [(DeliveryState.PENDING, 0)] * waiting
    assert not await house.log(endpoint.id)
    assert await health(house, endpoint) == {
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
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        endpoint = await registered(house, receiver)
        await house.happen(10)
        for _ in range(20):  # twice as often as a delivery may be tried; two of ten at a time
            assert await house.work() <= 2
            await assert_waits_unblamed(house, endpoint, 10)
            house.now += 1.2 * NOT_SENT_S + 0.1
            if broken is SILENCE:  # every look takes as long as the resolver is given
                break
        asked = dns.asked.total()
        assert asked >= 2
        zone[NAME] = {"A": Says(["127.0.0.1"])}
        assert await house.work() == 10
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 10
    assert receiver.connections == 10


async def test_what_could_not_be_sent_waits_a_minute_and_its_endpoint_with_it(database_url: str) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        endpoint = await registered(house, receiver)
        await house.happen(10)
        assert await house.work() == 2
        asked = dns.asked.total()
        house.now += 0.79 * NOT_SENT_S
        assert await house.work() == 0
        assert dns.asked.total() == asked
        zone[NAME] = {"A": Says(["127.0.0.1"])}
        house.now += 0.42 * NOT_SENT_S
        assert await house.work() == 10
        assert (await house.newest(endpoint.id)).state is DeliveryState.SUCCEEDED


@pytest.mark.parametrize("zone", [{}, {NAME: {}}], ids=["nxdomain", "nodata"])
async def test_a_name_that_does_not_exist_is_the_receivers_fault(
    database_url: str, zone: dict[str, dict[str, Says]]
) -> None:
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        endpoint = await registered(house, receiver)
        await house.happen()
        assert await house.work() == 1
        assert [made.error for made in await house.log(endpoint.id)] == [ErrorClass.DNS]
        assert (await health(house, endpoint))["failures"] == 1


async def test_half_an_answer_is_enough_if_it_holds_an_address(database_url: str) -> None:
    zone = {NAME: {"A": Says(["127.0.0.1"]), "AAAA": SERVFAIL}}
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        await registered(house, receiver)
        await house.happen()
        assert await house.work() == 1
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
    async with receiving() as receiver, opened(database_url) as house:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        (claimed,) = await house.deliverer.claim(1)
        with no_descriptors():
            await house.deliverer.deliver(claimed)
        await assert_waits_unblamed(house, endpoint, 1)
        house.now += 1.2 * NOT_SENT_S + 0.1
        assert await house.work() == 1
    assert receiver.connections == 1


async def test_a_test_that_could_not_be_sent_says_so(database_url: str) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        endpoint = await registered(house, receiver)
        told = await house.service.test(house.account, endpoint.id, Sample.WEBHOOK)
    assert (told.error, told.status_code) == (ErrorClass.NOT_SENT, 0)


async def test_what_could_not_be_sent_is_skipped_when_its_endpoint_was_disabled_meanwhile(
    database_url: str,
) -> None:
    zone = {NAME: {"A": SERVFAIL, "AAAA": SERVFAIL}}
    async with receiving() as receiver, serving(zone) as dns, named_house(database_url, dns) as house:
        endpoint = await registered(house, receiver)
        await house.happen()
        (claimed,) = await house.deliverer.claim(1)
        await house.service.update(house.account, endpoint.id, enabled=False)
        await house.deliverer.deliver(claimed)
        view = await house.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.SKIPPED, 0)
        assert view.finished_at is not None
        await house.happen()
        await house.deliverer.deliver(claimed)  # its lease is over: nothing happens
        assert (await house.newest(endpoint.id)).finished_at == view.finished_at
