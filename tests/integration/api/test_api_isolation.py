"""Whatever belongs to another account is not there: every id an operation takes, tried with a foreign one."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel

from mailsift.api.app import create_app
from tests.support.installation import open_parts

if TYPE_CHECKING:
    from mailsift.settings import Settings
    from tests.integration.api.conftest import Api

JOBS, HOOKS, SCHEDULES = "/v1/bulk/jobs", "/v1/webhooks", "/v1/bulk/schedules"
RECEIVERS = "/v1/outcomes/receivers"
PUBLIC_KEYS = "/v1/public-keys"
CRON = {"cron": "0 6 * * 1", "zone": "Europe/Berlin"}

# What an operation takes besides ids; one that needs a body and does not stand here answers 422, not 404.
BODIES: dict[str, dict[str, Any]] = {
    "rotate_receiver": {"key": ""},
    "update_webhook": {"enabled": False},
    "rotate_webhook_secret": {"overlap": 0},
    "redeliver_failed": {"since": "2026-01-01T00:00:00Z"},
    "test_webhook": {"test_type": "test_webhook"},
    "create_schedule": CRON,
    "update_schedule": {"name": "mine now"},
    "update_public_key": {"origins": ["https://evil.example.net"]},
    "replay_job": {"policy": {"role": "send"}, "keep": True},
}
QUERIES: dict[str, dict[str, str]] = {"recover_webhook": {"since": "2026-01-01T00:00:00Z"}}
# What an id is an id of, by its name wherever an operation takes it.
KINDS = {
    "job_id": "job",
    "against": "job",
    "webhook_id": "webhook",
    "delivery_id": "delivery",
    "event_id": "event",
    "before": "delivery",
    "schedule_id": "schedule",
    "receiver_id": "receiver",
    "public_key_id": "key",
}


@dataclass(frozen=True)
class Takes:
    """An operation and the ids it takes."""

    name: str
    method: str
    path: str
    in_path: tuple[str, ...] = ()
    in_query: tuple[str, ...] = ()
    in_body: tuple[str, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.in_path, *self.in_query, *self.in_body)

    async def ask(self, client: httpx.AsyncClient, ids: Mapping[str, str]) -> httpx.Response:
        """Send the request with these ids, by name."""
        query = {**QUERIES.get(self.name, {}), **{name: ids[name] for name in self.in_query}}
        body = {**self.body, **{name: ids[name] for name in self.in_body}} or None
        return await client.request(self.method, self.path.format(**ids), params=query, json=body)


def _is_id(annotation: Any) -> bool:
    kinds = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return UUID in {getattr(kind, "__supertype__", kind) for kind in kinds}


def _taken(route: APIRoute) -> Iterator[Takes]:
    """Return how each method of the route is asked."""
    wanted = route.dependant
    model = route.body_field.field_info.annotation if route.body_field else None
    body = model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}
    for method in sorted(route.methods or ()):
        yield Takes(
            name=str(route.unique_id),
            method=method,
            path=route.path_format,
            in_path=tuple(one.name for one in wanted.path_params),
            in_query=tuple(one.alias for one in wanted.query_params if _is_id(one.field_info.annotation)),
            in_body=tuple(name for name, one in body.items() if _is_id(one.annotation)),
            body=BODIES.get(str(route.unique_id), {}),
        )


def _operations(app: FastAPI) -> list[Takes]:
    routes = [one.original_route for one in iter_route_contexts(app.routes)]
    return [
        taken
        for route in routes
        if isinstance(route, APIRoute) and route.path.startswith("/v1")
        for taken in _taken(route)
    ]


@asynccontextmanager
async def _operations_of(settings: Settings) -> AsyncIterator[list[Takes]]:
    async with open_parts(settings) as parts:
        yield _operations(create_app(parts))


async def _things(client: httpx.AsyncClient) -> dict[str, str]:
    """Make one object of every kind; returns their ids by kind."""
    job = (await client.post(JOBS, json={"emails": ["a@example.com"]})).json()["data"]["job_id"]
    hook = (await client.post(HOOKS, json={"url": "http://127.0.0.1:9/hook"})).json()["data"]["id"]
    body = {"test_type": "test_webhook", "webhook_id": hook}
    tested = (await client.post(f"{HOOKS}/test", json=body)).json()["data"]
    assert tested["error"] == "connection_refused"
    schedule = (await client.post(SCHEDULES, json={"job_id": job, **CRON})).json()["data"]["id"]
    receiver = (await client.post(RECEIVERS, json={"sender": "brevo"})).json()["data"]["receiver_id"]
    form = {"origins": ["https://www.example.com"]}
    key = (await client.post(PUBLIC_KEYS, json=form)).json()["data"]["public_key_id"]
    return {
        "key": key,
        "job": job,
        "webhook": hook,
        "delivery": tested["delivery_id"],
        "event": tested["event_id"],
        "schedule": schedule,
        "receiver": receiver,
    }


async def test_every_id_that_an_operation_takes_may_not_be_a_foreign_one(
    api: Api, client: httpx.AsyncClient
) -> None:
    foreign = await _things(client)
    before = await _everything(client, foreign)
    async with (
        _operations_of(api.settings) as operations,
        api.client(await api.key("mallory")) as mallory,
    ):
        asked = 0
        for operation in operations:
            for stolen in operation.ids:
                assert stolen in KINDS, f"{operation.name} takes {stolen}: say in KINDS what it is an id of"
                own = await _things(mallory)
                ids = {name: own[KINDS[name]] for name in operation.ids} | {stolen: foreign[KINDS[stolen]]}
                answer = await operation.ask(mallory, ids)
                assert answer.status_code == 404, (operation.name, stolen, answer.text)
                assert answer.json()["code"] == f"{KINDS[stolen]}_not_found"
                asked += 1
    assert asked > 30
    assert await _everything(client, foreign) == before


async def test_no_operation_shows_a_foreign_id(api: Api, client: httpx.AsyncClient) -> None:
    foreign = await _things(client)
    async with (
        _operations_of(api.settings) as operations,
        api.client(await api.key("mallory")) as mallory,
    ):
        own = await _things(mallory)
        reads = [one for one in operations if one.method == "GET" and not one.path.endswith("/events")]
        seen = 0
        for operation in reads:
            answer = await operation.ask(mallory, {name: own[KINDS[name]] for name in operation.ids})
            assert answer.status_code in {200, 409}, (operation.name, answer.text)
            assert not [kind for kind, id_ in foreign.items() if id_ in answer.text], operation.name
            seen += any(id_ in answer.text for id_ in own.values())
    assert len(reads) > 10
    assert seen > 5  # they show something


async def test_an_idempotency_key_leads_to_nobody_elses_job(api: Api, client: httpx.AsyncClient) -> None:
    body, header = {"emails": ["a@example.com"]}, {"Idempotency-Key": "same"}
    async with api.client(await api.key("mallory")) as mallory:
        answers = [await one.post(JOBS, json=body, headers=header) for one in (client, mallory)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["data"]["job_id"] for answer in answers}) == 2


async def _everything(client: httpx.AsyncClient, ids: Mapping[str, str]) -> list[Any]:
    paths = [f"{JOBS}/{ids['job']}", f"{SCHEDULES}/{ids['schedule']}", f"{HOOKS}/{ids['webhook']}"]
    paths += [f"{HOOKS}/deliveries/{ids['delivery']}", JOBS, HOOKS, SCHEDULES, PUBLIC_KEYS]
    answers = [await client.get(path) for path in paths]
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Webhooks of this machine may be dialled."""
    return settings.model_copy(update={"allow_non_public": True, "webhook_allow_http": True})
