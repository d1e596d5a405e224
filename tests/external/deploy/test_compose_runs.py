"""The commands of compose.yaml on Debian's servers: a list goes in through the front, verdicts come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import redis

from mailsift.cli.demo import disagreements
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from tests.support.compose_services import ComposeServices, compose_house
from tests.support.deploy_files import compose
from tests.support.installation import until
from tests.support.reverse_proxies import FRONTS, NAME, Front

pytestmark = pytest.mark.needs(
    *("root", "postgresql", "redis-server", "unbound", "unshare", "setpriv", "nginx", "caddy")
)
SEED, DOMAINS, ROWS = 11, 60, 400
MIB = 1024**2


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeServices]:
    """Everything up, in the order compose.yaml says."""
    folder = tmp_path_factory.mktemp("compose")
    with SandboxProcess(seed=SEED, domains=DOMAINS) as sandbox, compose_house(folder, sandbox) as running:
        first = running.run("migrate")
        assert first.returncode == 0, first.stderr
        for name in ("api", "worker", "sweeper"):
            waits_for = compose()["services"][name]["depends_on"]
            assert waits_for["migrate"] == {"condition": "service_completed_successfully"}
            running.start(name)
        yield running


@pytest.fixture(scope="module")
def key(services: ComposeServices) -> str:
    made = services.run("api", "keys", "create", "--account", "acme")
    assert made.returncode == 0, made.stderr
    return made.stdout.split()[-1]


@pytest.fixture(params=sorted(FRONTS))
def front(request: pytest.FixtureRequest, services: ComposeServices, tmp_path: Path) -> Iterator[Front]:
    with FRONTS[request.param](tmp_path, services.api_port) as running:
        yield running


@pytest.fixture
async def client(front: Front, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody outside, who reaches the front by its name."""
    async with httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{front.https}",
        headers={"Authorization": f"Bearer {key}", "Host": NAME},
        verify=front.trust,
        timeout=90,
    ) as found:
        yield found


def by_name(client: httpx.AsyncClient, method: str, path: str, **more: object) -> httpx.Request:
    return client.build_request(method, path, extensions={"sni_hostname": NAME}, **more)  # type: ignore[arg-type]  # handed on


async def ask(client: httpx.AsyncClient, method: str, path: str, **more: object) -> httpx.Response:
    return await client.send(by_name(client, method, path, **more))


async def stream(client: httpx.AsyncClient, path: str) -> httpx.Response:
    return await client.send(by_name(client, "GET", path), stream=True)


async def test_a_list_goes_through_the_front_and_comes_back_judged(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    source = tmp_path / "list.csv"
    truth = write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=ROWS)
    made = await ask(
        client, "POST", "/v1/bulk/jobs", content=source.read_bytes(), headers={"Content-Type": "text/csv"}
    )
    assert made.status_code == 202, made.text
    job = f"/v1/bulk/jobs/{made.json()['data']['job_id']}"
    view = made.json()["data"]
    async with asyncio.timeout(150):
        while view["status"] not in {"completed", "failed"}:
            view = (await ask(client, "GET", f"{job}?wait=60")).json()["data"]
    assert (view["status"], view["processed"]) == ("completed", ROWS), str(view)
    results = await ask(client, "GET", f"{job}/results?format=csv")
    out = tmp_path / "results.csv"
    out.write_bytes(results.content)
    wrong = disagreements(out, truth)
    assert wrong.is_empty(), wrong


async def test_progress_comes_through_the_front_while_the_job_goes_on(
    client: httpx.AsyncClient,
) -> None:
    later = f"known{uuid4().hex}@greylist.sandbox.test"  # nobody has asked for this one
    made = await ask(client, "POST", "/v1/bulk/jobs", content=later, headers={"Content-Type": "text/plain"})
    job = f"/v1/bulk/jobs/{made.json()['data']['job_id']}"

    async def paused() -> bool:
        return (await ask(client, "POST", f"{job}/pause")).status_code == 200

    await until(paused, within=30)  # first it is taken in
    async with asyncio.timeout(60), aclosing(await stream(client, f"{job}/events")) as answer:
        events = (line async for line in answer.aiter_lines() if line.startswith("event: "))
        # Held back on the way it would come with the end, which does not come while the job is paused.
        assert await anext(events) == "event: progress"
        assert (await ask(client, "POST", f"{job}/resume")).status_code == 200
        assert [line async for line in events][-1] == "event: end"


async def test_a_body_that_is_too_large_is_refused_on_the_way(
    client: httpx.AsyncClient, services: ComposeServices
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"a@example.com\n" * (MIB // 14)

    try:
        answer = await ask(
            client, "POST", "/v1/bulk/jobs", content=endless(), headers={"Content-Type": "text/plain"}
        )
        status = answer.status_code
    except (httpx.WriteError, httpx.ReadError):  # it does not wait for the end of what it refuses
        status = 413
    assert status == 413
    assert services.running["api"].poll() is None


@pytest.mark.parametrize("token", ["the key", "rubbish"])
async def test_a_key_over_plain_http_is_refused_whatever_it_is(front: Front, key: str, token: str) -> None:
    given = key if token == "the key" else "svc_key_rubbish"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{front.http}", headers={"Host": NAME}) as plain:
        for path in ("/v1/bulk/jobs", "/mcp", "/receivers/7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11"):
            refused = await plain.post(path, headers={"Authorization": f"Bearer {given}"})
            assert (refused.status_code, "location" in refused.headers) == (403, False), path
        page = await plain.get("/login?next=/jobs")
    assert (page.status_code, page.headers["location"]) == (308, f"https://{NAME}/login?next=/jobs")


async def test_another_name_than_ours_is_not_served(front: Front) -> None:
    async with httpx.AsyncClient(verify=front.trust) as stranger:
        request = stranger.build_request(
            "GET", f"https://127.0.0.1:{front.https}/healthz", extensions={"sni_hostname": "evil.example"}
        )
        with pytest.raises(httpx.ConnectError):
            await stranger.send(request)


def test_redis_lets_us_touch_our_own_keys_only(services: ComposeServices) -> None:
    url = (services.folder / "secrets/mailsift_redis_url").read_text().strip()
    with redis.Redis.from_url(url) as ours, redis.Redis(port=services.redis_port) as nobody:
        assert ours.set("ms:fact:x", "1", px=1)
        for forbidden in ("SET other 1", "FLUSHALL", "CONFIG SET dir /", "ACL LIST", "SHUTDOWN", "KEYS *"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                ours.execute_command(*forbidden.split())
        with pytest.raises(redis.exceptions.AuthenticationError):
            nobody.get("ms:fact:x")


def test_every_service_ends_in_good_order_and_no_secret_is_in_its_log(services: ComposeServices) -> None:
    ended = {name: services.stop(name) for name in ("worker", "sweeper", "api")}
    assert ended == {"worker": 0, "sweeper": 0, "api": 0}
    log = services.log.read_text()
    secrets = [path.read_text().strip() for path in (services.folder / "secrets").iterdir()]
    assert [secret for secret in secrets if secret in log] == []
    assert "Traceback" not in log
    assert '"level": "error"' not in log
